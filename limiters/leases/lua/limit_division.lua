-- Divides a limit among its instances: _coordinator/division.py in Lua. The pass over all records
-- keeps what it reads in lists of numbers: a table for each instance would cost as much as the rest.

local records = state.records

-- What is read of all records: a crowd (see limit_shares.lua), what each batch costs of each bound,
-- and what each holds; and of those who ask for a permit, the positions of their names and of the
-- above, and the rest. Behind the first `length` of them comes the record of the calling instance, as
-- it is now. nil if a record cannot be read.
local function read_all(all, length)
  local bounds = #limit.bounds
  local crowd = { count = 0, needs = {}, weights = {}, wholes = state.wholes() }
  local seen_all = {
    crowd = crowd, batches = {}, units = {}, arrivals = {}, silents = {}, held = {}, needed = {},
    asking = { names = {}, places = {}, asks = {}, turns = {}, sinces = {} },
  }
  local weights, arrivals, silents = crowd.weights, seen_all.arrivals, seen_all.silents
  local asking, asked, count = seen_all.asking, 0, 0
  local removed, own, RECORD_BYTE = records.removed, records.own, state.RECORD_BYTE
  for b = 1, bounds do
    crowd.needs[b], seen_all.batches[b], seen_all.units[b] = {}, {}, {}
    seen_all.held[b], seen_all.needed[b], asking.asks[b] = 0, 0, {}
  end
  local first_needs, first_units = crowd.needs[1], seen_all.units[1]
  local first_batches = seen_all.batches[1]
  local first_held, first_needed = 0, 0
  for i = 1, #all, 2 do
    local name, text = all[i], all[i + 1]
    local counts = byte(name) == RECORD_BYTE and name ~= own and not removed[name]
    if counts or i > length then
      local _, since, gathers, turn, seen, interval, weight, arrival, units, need, ask, piece, next_ =
        scanned(text, bounds)
      if not units then
        return nil
      end
      count = count + 1
      first_held, first_needed = first_held + units, first_needed + need
      first_needs[count], first_units[count] = need, units
      first_batches[count] = gathers ~= 0 and ask or piece
      weights[count], arrivals[count] = weight, arrival
      silents[count] = seen + 2 * interval + SILENT_MS
      local asks = ask ~= 0
      if asks then
        asking.asks[1][asked + 1] = ask
      end
      for b = 2, bounds do
        units, need, ask, piece, next_ = scanned_bound(text, next_)
        if not units then
          return nil
        end
        seen_all.held[b], seen_all.needed[b] = seen_all.held[b] + units, seen_all.needed[b] + need
        crowd.needs[b][count], seen_all.units[b][count] = need, units
        seen_all.batches[b][count] = gathers ~= 0 and ask or piece
        asking.asks[b][asked + 1] = ask
        asks = asks or ask ~= 0
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
  crowd.count, asking.count = count, asked
  seen_all.held[1], seen_all.needed[1] = first_held, first_needed
  return seen_all
end

-- Of each instance, whether its fair share is less than it needs, and whether it lives on permits;
-- and whether any does.
local function judge(seen)
  local crowd, worths, limited, lives, some = seen.crowd, {}, {}, {}, false
  local needs, batches, short = crowd.needs, seen.batches, permits.is_short()
  for b, bound in ipairs(limit.bounds) do
    worths[b] = state.worth(bound)
  end
  for i = 1, crowd.count do
    local scale, scarcest, most = 1, 0, 0
    if short then
      scale, scarcest, most = shares.scale(crowd, i, limit.fair_units, limit.fair_weights)
    end
    local is_limited, on_permits = scarcest ~= 0, false
    for b = 1, #worths do
      local batch = batches[b][i]
      if batch > 0 then
        local part = shares.part(needs[b][i], b, scale, scarcest, most)
        on_permits = on_permits or permits.is_too_small(part, is_limited, batch, worths[b])
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
  for k = 1, asking.count do
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
      for i = 1, crowd.count do
        if lives[i] then
          local scale, scarcest, most =
            shares.scale(crowd, i, limit.fair_units, limit.fair_weights)
          aside = aside + floor(shares.part(crowd.needs[b][i], b, scale, scarcest, most))
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
      for i = 1, seen.crowd.count do
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

-- What the share of an instance is of one bound of slots, also if it lives on permits; and whether it
-- is less than it needs.
local function part_of_slots(crowd, i, b, on_permits)
  local units = on_permits and limit.fair_units or limit.level_units
  local weights = on_permits and limit.fair_weights or limit.level_weights
  return shares.part(crowd.needs[b][i], b, shares.scale(crowd, i, units, weights))
end

-- How many slots an instance has a right to, by its part of them.
local function right_to_slots(bound, part, need, arrival, limited, on_permits)
  if not on_permits and not limited and bound.spare > 0 then
    return min(bound.whole, need + floor(need * bound.spare))
  end
  local more = slots.lot_of(part, arrival, limit.epoch) < bound.lot and 1 or 0
  return floor(part) + more
end

-- Who has the slots that are left over, and how many of these are still held by others.
local function divide_slots(b, bound, seen, limited, lives)
  local crowd, arrivals, parts, buckets = seen.crowd, seen.arrivals, {}, {}
  local left = bound.whole
  for i = 1, crowd.count do
    local part = part_of_slots(crowd, i, b, lives[i])
    local lot = slots.lot_of(part, arrivals[i], limit.epoch)
    parts[i], buckets[lot], left = part, (buckets[lot] or 0) + 1, left - floor(part)
  end
  bound.lot = slots.drawn(buckets, left)
  local lacking = 0
  for i = 1, crowd.count do
    if seen.silents[i] >= limit.now then
      local right = right_to_slots(bound, parts[i], crowd.needs[b][i], arrivals[i], limited[i],
        lives[i])
      lacking = lacking + max(0, right - seen.units[b][i])
    end
  end
  bound.lacking = lacking
end

-- Computes the levels of all bounds, the queue of those who wait, and who has the slots that are left
-- over. False if what is stored did not agree.
function division.divide(record)
  local all = state.listed()
  local length = #all
  all[length + 1], all[length + 2] = records.own, sealed(records.own, write_record(record))
  local seen = read_all(all, length)
  local agree = seen and certainty.amounts_agree(seen.held, seen.crowd.count)
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

-- A share of few batches, rounded down to whole ones: the same number in each bound.
local function whole_batches(record, units)
  local number = math.huge
  for b, one in ipairs(record.bounds) do
    if one.piece > 0 then
      number = min(number, units[b] * state.worth(limit.bounds[b]) / one.piece)
    end
  end
  if number >= WHOLE_BATCHES then
    return
  end
  local whole = floor(number + 1e-9)
  for b, one in ipairs(record.bounds) do
    if one.piece > 0 then
      units[b] = min(UNITS, ceil(whole * one.piece / state.worth(limit.bounds[b])))
    end
  end
end

-- How much of each bound an instance may hold; and whether its fair share is less than it needs.
function division.rights_of(record)
  local _, limited = permits.fair_share(record)
  local on_permits, crowd = permits.lives_on_permits(record), permits.crowd_of(record)
  local scale, scarcest, most
  if on_permits then
    scale, scarcest, most = shares.scale(crowd, 1, limit.fair_units, limit.fair_weights)
  else
    scale, scarcest, most = shares.scale(crowd, 1, limit.level_units, limit.level_weights)
  end
  local units, parts = {}, {}
  for b, one in ipairs(record.bounds) do
    parts[b] = shares.part(one.need, b, scale, scarcest, most)
    units[b] = floor(parts[b])
  end
  if scarcest ~= 0 and not on_permits then
    whole_batches(record, units)
  end
  for b, bound in ipairs(limit.bounds) do
    local need = record.bounds[b].need
    if bound.slots then
      units[b] = right_to_slots(bound, parts[b], need, record.arrival, limited, on_permits)
    elseif on_permits then
      units[b] = 0
    elseif not limited and bound.spare > 0 then
      units[b] = min(bound.whole, need + floor(need * bound.spare))
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
