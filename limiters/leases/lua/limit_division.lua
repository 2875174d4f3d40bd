-- Divides a limit among its instances: _coordinator/division.py in Lua. The pass over all records
-- keeps what it reads in lists of numbers: a table for each instance would cost as much as the rest.

local records = state.records

-- What is read of all records: a crowd (see limit_shares.lua), what batches cost of each bound, what
-- the next one costs of those that gather for it, and what each holds; and of those who ask for a
-- permit, the positions of their names and of the above, and the rest. Behind the first `length` of them comes the record of the calling instance, as
-- it is now. nil if a record cannot be read.
local function read_all(all, length)
  local crowd = { needs = {}, weights = {}, wholes = state.wholes() }
  local seen_all = {
    crowd = crowd, pieces = {}, gathers = {}, units = {}, arrivals = {}, silents = {}, held = {}, needed = {},
    asking = { names = {}, places = {}, asks = {}, turns = {}, sinces = {} },
  }
  local weights, arrivals, silents = crowd.weights, seen_all.arrivals, seen_all.silents
  local asking, asked, count = seen_all.asking, 0, 0
  local removed, own, RECORD_BYTE = records.removed, records.own, state.RECORD_BYTE
  for b = 1, #limit.bounds do
    crowd.needs[b], seen_all.pieces[b], seen_all.units[b] = {}, {}, {}
    seen_all.gathers[b] = {}
    seen_all.held[b], seen_all.needed[b], asking.asks[b] = 0, 0, {}
  end
  local first_needs, first_units = crowd.needs[1], seen_all.units[1]
  local first_pieces = seen_all.pieces[1]
  local first_held, first_needed = 0, 0
  for i = 1, #all, 2 do
    local name, text = all[i], all[i + 1]
    local counts = byte(name) == RECORD_BYTE and name ~= own and not removed[name]
    if counts or i > length then
      local _, since, gathers, turn, seen, interval, weight, arrival, units, need, ask, piece, next_ =
        scanned(text, #limit.bounds)
      if not units then
        return nil
      end
      count = count + 1
      first_held, first_needed = first_held + units, first_needed + need
      first_needs[count], first_units[count] = need, units
      first_pieces[count] = piece
      weights[count], arrivals[count] = weight, arrival
      silents[count] = seen + 2 * interval + SILENT_MS
      local asks = ask ~= 0
      if gathers ~= 0 then
        seen_all.gathers[1][count] = ask
      end
      if asks then
        asking.asks[1][asked + 1] = ask
      end
      for b = 2, #limit.bounds do
        units, need, ask, piece, next_ = scanned_bound(text, next_)
        if not units then
          return nil
        end
        seen_all.held[b], seen_all.needed[b] = seen_all.held[b] + units, seen_all.needed[b] + need
        crowd.needs[b][count], seen_all.units[b][count] = need, units
        seen_all.pieces[b][count] = piece
        asking.asks[b][asked + 1] = ask
        asks = asks or ask ~= 0
        if gathers ~= 0 then
          seen_all.gathers[b][count] = ask
        end
      end
      if asks then
        asked = asked + 1
        asking.asks[1][asked] = asking.asks[1][asked] or 0
        asking.names[asked], asking.places[asked] = i, count
        asking.turns[asked], asking.sinces[asked] = turn, since
      else
        asking.asks[1][asked + 1] = nil
      end
    end
  end
    seen_all.held[1], seen_all.needed[1] = first_held, first_needed
  return seen_all
end

-- The scale of the fair share of each instance, the bound that limits it, and what it gets of that.
local function fair_shares(seen)
  local crowd, fair = seen.crowd, { scales = {}, scarcest = {}, most = {} }
  local short = permits.is_short()
  for i = 1, #crowd.weights do
    local scale, scarcest, most = 1, 0, 0
    if short then
      scale, scarcest, most = shares.scale(crowd, i, limit.fair_units, limit.fair_weights)
    end
    fair.scales[i], fair.scarcest[i], fair.most[i] = scale, scarcest, most
  end
  seen.fair = fair
end

-- What the fair share of an instance is of one bound, before it is rounded down.
local function fair_part(seen, i, b)
  local fair = seen.fair
  return shares.part(seen.crowd.needs[b][i], b, fair.scales[i], fair.scarcest[i], fair.most[i])
end

-- Of a bound that is not short while another is, instances use less than there is: they may hold most
-- of the rest, too, so that they need not wait where batches differ.
local function ease(seen)
  local some_short = permits.is_short()
  for b, bound in ipairs(limit.bounds) do
    bound.ease = 1
    if some_short and limit.fair_weights[b] == 0 then
      local used = 0
      for i = 1, #seen.crowd.weights do
        used = used + floor(fair_part(seen, i, b))
      end
      if used ~= 0 then
        bound.ease = 1 + max(0, bound.whole - used) * EASED / used
      end
    end
  end
end

-- Of each instance, whether its fair share is less than it needs, and whether it lives on permits;
-- and whether any does.
local function judge(seen)
  local worths, eases, with_share, without, limited, lives, some = {}, {}, {}, {}, {}, {}, false
  local pieces, gathers, scarcest = seen.pieces, seen.gathers, seen.fair.scarcest
  for b, bound in ipairs(limit.bounds) do
    worths[b], eases[b] = state.worth(bound), bound.ease
    with_share[b] = permits.few_batches(bound, true)
    without[b] = permits.few_batches(bound, false)
  end
  for i = 1, #seen.crowd.weights do
    local is_limited, on_permits, few = scarcest[i] ~= 0, false, without
    for b, bound in ipairs(limit.bounds) do
      if seen.units[b][i] > 0 and not bound.slots then
        few = with_share
      end
    end
    for b = 1, #worths do
      local piece, gathered = pieces[b][i], gathers[b][i] or 0
      if (piece > 0 or gathered > 0) and not on_permits then
        on_permits = permits.is_too_small(
          fair_part(seen, i, b), is_limited, few[b], piece, gathered, eases[b], worths[b])
      end
    end
    limited[i], lives[i] = is_limited, on_permits
    some = some or on_permits
  end
  return limited, lives, some
end

-- The first of those who wait for a permit, in order.
local function queue_of(seen, lives, all)
  local crowd, asking, queue, last = seen.crowd, seen.asking, {}, nil
  local now, clock = limit.now, permits.turns_at()
  for k = 1, #asking.names do
    local i = asking.places[k]
    -- Most of those who wait come behind the last one of a full queue by their turn alone.
    local comes_later = last and last.turn <= clock and asking.turns[k] > clock
    if seen.silents[i] >= now and not comes_later then
      local ask = {}
      for b = 1, #limit.bounds do
        ask[b] = asking.asks[b][k]
      end
      local one = {
        later = not lives[i], turn = asking.turns[k], since = asking.sinces[k], ask = ask,
        silent = seen.silents[i], name = sub(all[asking.names[k]], #RECORD_PREFIX + 1),
        fair = shares.dominant(crowd, i, limit.fair_units, limit.fair_weights),
      }
      local at = #queue + 1
      for j = #queue, 1, -1 do
        if not permits.queued_before(one, queue[j]) then
          break
        end
        queue[j + 1], at = queue[j], j
      end
      queue[at] = one
      queue[QUEUE_LENGTH + 1] = nil
      last = queue[QUEUE_LENGTH]
    end
  end
  return queue
end

-- What those who live on permits leave of each bound to the others: of rates, what is not kept aside
-- for them; of slots, all but their fair shares.
local function left_for_shares(seen, lives)
  local crowd, left, asides = seen.crowd, {}, permits.kept_aside()
  for b, bound in ipairs(limit.bounds) do
    local aside = asides[b]
    if bound.slots then
      aside = 0
      for i = 1, #crowd.weights do
        if lives[i] then
          aside = aside + floor(fair_part(seen, i, b))
        end
      end
    end
    left[b] = bound.whole - aside
  end
  return left
end

-- Where nobody is short, half of what is left is held by those who work, so that they can do more
-- without asking first; the other half serves newcomers at once. An instance that is short of another
-- bound could not use it.
local function spread_spare(seen, limited, lives)
  for b, bound in ipairs(limit.bounds) do
    local left, needed, needs = bound.whole - bound.needs, 0, seen.crowd.needs[b]
    bound.spare = 0
    if left > 0 then
      for i = 1, #seen.crowd.weights do
        if not limited[i] and not lives[i] then
          needed = needed + needs[i]
        end
      end
      if needed > 0 then
        bound.spare = left / 2 / needed
      end
    end
  end
end

-- How many slots an instance has a right to, by its part of them, and the lot by which it may have one
-- more.
local function right_to_slots(bound, need, part, arrival, limited, on_permits)
  if not on_permits and not limited and bound.spare > 0 then
    return min(bound.whole, need + floor(need * bound.spare)), LOT_BUCKETS
  end
  part = min(need, part)
  return floor(part), slots.lot_of(part, arrival, limit.epoch)
end

-- Who has the slots that are left over, and how many of these are still held by others.
local function divide_slots(b, bound, seen, limited, lives)
  local crowd, rights, lots, buckets, left = seen.crowd, {}, {}, {}, bound.whole
  local parts, fair = {}, seen.fair
  for i = 1, #crowd.weights do
    local scale, scarcest, most = fair.scales[i], fair.scarcest[i], fair.most[i]
    if not lives[i] and limit.level_units ~= limit.fair_units then
      scale, scarcest, most = shares.scale(crowd, i, limit.level_units, limit.level_weights)
    end
    local part = shares.part(crowd.needs[b][i], b, scale, scarcest, most)
    if scarcest ~= 0 and bound.ease ~= 1 then
      for k = 1, #limit.bounds do
        parts[k] = shares.part(crowd.needs[k][i], k, scale, scarcest, most)
      end
      part = permits.eased(bound, part, true, 0, permits.stretch(parts))
    end
    local right, lot = right_to_slots(bound, crowd.needs[b][i], part, seen.arrivals[i], limited[i],
      lives[i])
    rights[i], lots[i], left = right, lot, left - right
    buckets[lot] = (buckets[lot] or 0) + 1
  end
  bound.lot = slots.drawn(buckets, left)
  for i = 1, #crowd.weights do
    if seen.silents[i] >= limit.now then
      local right = rights[i] + (lots[i] < bound.lot and 1 or 0)
      bound.lacking = bound.lacking + max(0, right - seen.units[b][i])
    end
  end
end

-- Computes the levels of all bounds, the queue of those who wait, and who has the slots that are left
-- over. False if what is stored did not agree.
function division.divide(record)
  local all = state.listed()
  local length = #all
  all[length + 1], all[length + 2] = records.own, sealed(records.own, write_record(record))
  local seen = read_all(all, length)
  local agree = seen and certainty.amounts_agree(seen.held, #seen.crowd.weights)
  if agree then
    limit.shares_at = limit.now
    local was_short = permits.is_short()
    local wholes = seen.crowd.wholes
    for b, bound in ipairs(limit.bounds) do
      bound.needs = seen.needed[b]
    end
    limit.fair_units, limit.fair_weights = shares.levels(seen.crowd, wholes)
    limit.level_units, limit.level_weights = limit.fair_units, limit.fair_weights
    if permits.is_short() and not was_short then
      limit.short_since = limit.now
    end
    fair_shares(seen)
    ease(seen)
    local limited, lives, some = judge(seen)
    limit.queue = queue_of(seen, lives, all)
    if some then
      limit.level_units, limit.level_weights =
        shares.levels(seen.crowd, left_for_shares(seen, lives), lives)
    end
    spread_spare(seen, limited, lives)
    limit.epoch = slots.epoch_at(limit.now, limit.interval)
    for b, bound in ipairs(limit.bounds) do
      bound.lot, bound.lacking = 0, 0
      if bound.slots and permits.is_short() then
        divide_slots(b, bound, seen, limited, lives)
      end
    end
  end
  all[length + 1], all[length + 2] = nil, nil
  return agree
end

-- A share of few batches, rounded down to whole ones in each bound that is short.
local function whole_batches(record, units)
  for b, one in ipairs(record.bounds) do
    if one.piece > 0 and limit.fair_weights[b] ~= 0 then
      local worth = state.worth(limit.bounds[b])
      local number = units[b] * worth / one.piece
      if number < WHOLE_BATCHES then
        units[b] = min(UNITS, ceil(floor(number + 1e-9) * one.piece / worth))
      end
    end
  end
end

-- How much of each bound an instance may hold; and whether its fair share is less than it needs.
function division.rights_of(record)
  local _, limited = permits.fair_share(record)
  local on_permits, crowd = permits.lives_on_permits(record), permits.crowd_of(record)
  local levels = on_permits and limit.fair_units or limit.level_units
  local weights = on_permits and limit.fair_weights or limit.level_weights
  local scale, scarcest, most = shares.scale(crowd, 1, levels, weights)
  local units, parts, is_short = {}, {}, scarcest ~= 0
  for b, one in ipairs(record.bounds) do
    parts[b] = shares.part(one.need, b, scale, scarcest, most)
    units[b] = floor(parts[b])
  end
  if is_short and not on_permits then
    whole_batches(record, units)
  end
  local stretch = permits.stretch(parts)
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    if bound.slots then
      local part = permits.eased(bound, parts[b], is_short, 0, stretch)
      local right, lot = right_to_slots(bound, one.need, part, record.arrival, limited, on_permits)
      units[b] = right + (lot < bound.lot and 1 or 0)
    elseif on_permits then
      units[b] = 0
    elseif not limited and bound.spare > 0 then
      units[b] = min(bound.whole, one.need + floor(one.need * bound.spare))
    elseif is_short and limit.fair_weights[b] == 0 then
      units[b] = min(one.need, floor(permits.eased(bound, parts[b], true, one.piece, stretch)))
    end
  end
  return units, limited
end

-- How many slots an instance is granted: one more than its right, if it needs that and the slot is
-- free and nobody else has a right to it. It may not keep it.
function division.with_one_more(bound, one, right)
  if one.units == right and right < one.need and bound.pool > bound.lacking then
    return right + 1
  end
  return right
end

-- How much of what it holds an instance may keep. Each hand-over of a rate carries history, so
-- nothing moves while nobody is short. A slot that was free a moment ago may be used until the next
-- request; then it stays only while others are free.
function division.kept(bound, one, right, before, limited, uncertain)
  if uncertain then
    return max(right, one.units)
  end
  if bound.slots then
    if bound.pool > bound.lacking or one.units > max(right, before) then
      return max(right, min(one.units, one.need))
    end
    return right
  end
  local free = bound.pool * FREE_SHARE >= bound.whole
  if free and bound.spare > 0 and right > 0 and not limited then
    return max(right, one.units)
  end
  return right
end
