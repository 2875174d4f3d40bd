-- Divides a limit among its instances: _coordinator/division.py in Lua.

local records = state.records

-- How many slots an instance has a right to, and the lot by which it may have one more; by its parts
-- of all bounds, and by whether another bound limits it.
local function right_to_slots(b, record, parts, is_short, limited, on_permits)
  local bound, need = limit.bounds[b], record.bounds[b].need
  if not on_permits and not limited and bound.spare > 0 then
    return min(bound.whole, need + floor(need * bound.spare)), LOT_BUCKETS
  end
  local part = parts[b]
  if is_short and bound.ease ~= 1 then
    part = permits.eased(bound, part, true, 0, permits.stretch(parts))
  end
  part = min(need, part)
  return floor(part), slots.lot_of(part, record.arrival, bound.epoch)
end

-- What an instance may have of each bound at the levels for those that live on permits, or for the
-- others, before it is rounded down; and whether that is less than it needs.
local function parts_of(record, on_permits)
  local units = on_permits and limit.fair_units or limit.level_units
  local weights = on_permits and limit.fair_weights or limit.level_weights
  local demand = permits.demand_of(record)
  return shares.parts(demand, shares.scale(demand, units, weights))
end

-- Whether an instance is to have a slot more in this epoch, and has not had one.
local function is_unserved(bound, one, lot)
  return lot < bound.lot and one.served_at < bound.epoch_since
end

-- Whether it has a right to one slot more: until it had that for a turn.
local function has_turn(bound, one, lot)
  local is_on = limit.now < one.served_at + slots.turn_of(limit.interval)
  return lot < bound.lot and (is_on or one.served_at < bound.epoch_since)
end

-- The same for slots, by its fair share.
local function visit_slots(record, parts, limited, on_permits)
  local is_short = limited
  if limit.apart and not on_permits then
    parts, is_short = parts_of(record, false)
  end
  for b, bound in ipairs(limit.bounds) do
    if bound.slots then
      local right, lot = right_to_slots(b, record, parts, is_short, limited, on_permits)
      bound.sum_rights = bound.sum_rights + right
      if lot < LOT_BUCKETS then
        bound.counts_of_lots[lot] = (bound.counts_of_lots[lot] or 0) + 1
      end
      if record.seen + 2 * record.interval + SILENT_MS >= limit.now then
        local one = record.bounds[b]
        right = right + (has_turn(bound, one, lot) and 1 or 0)
        bound.sum_lacking = bound.sum_lacking + max(0, right - one.units)
        if one.units < right and is_unserved(bound, one, lot) then
          bound.sum_unserved = bound.sum_unserved + 1
        end
      end
    end
  end
end

-- Adds one instance to the sums, and puts it where it belongs in the queue.
local function visit(name, record, has_lots, orders)
  local demand, parts, limited = permits.demand_of(record), permits.fair_share(record)
  local on_permits = permits.lives_on_permits(record, parts, limited)
  shares.fill(limit.fair_fillings, demand, limit.fair_units, limit.fair_weights, orders.fair)
  if on_permits then
    limit.on_permits = limit.on_permits + 1
  elseif limit.apart then
    shares.fill(limit.level_fillings, demand, limit.level_units, limit.level_weights, orders.level)
  end
  for b = 1, #parts do
    local bound, need, share = limit.bounds[b], demand.needs[b], floor(parts[b])
    bound.sum_needs, bound.sum_shares = bound.sum_needs + need, bound.sum_shares + share
    if on_permits then
      bound.sum_aside = bound.sum_aside + share
    elseif not limited then
      bound.sum_satisfied = bound.sum_satisfied + need
    end
  end
  if has_lots then
    visit_slots(record, parts, limited, on_permits)
  end
  permits.requeue(name, record)
end

-- The next epoch, when all turns in this one have ended. Whether it begins.
local function next_epoch(bound)
  local turn = slots.turn_of(limit.interval)
  local ends = max(bound.epoch_since, bound.served_at) + turn
  if bound.sum_unserved > 0 then
    ends = bound.epoch_since + turn + bound.period
  end
  if limit.now < ends then
    return false
  end
  bound.epoch, bound.epoch_since = bound.epoch + 1, limit.now
  return true
end

-- How much more than it needs or uses an instance may hold of a bound, and who has the slots that are
-- left over. Whether that changes the next round.
local function spread(b, bound, is_short)
  local used = bound.sum_shares
  local spare, ease, lot, lacking = 0, 1, 0, 0
  bound.needs = bound.sum_needs
  if is_short and limit.fair_weights[b] == 0 and used > 0 then
    ease = 1 + max(0, bound.whole - used) * EASED / used
  end
  local left = bound.whole - bound.sum_needs
  if left > 0 and bound.sum_satisfied > 0 then
    spare = left / 2 / bound.sum_satisfied
  end
  if bound.slots and is_short then
    lot = slots.drawn(bound.counts_of_lots, bound.whole - bound.sum_rights)
    lacking = bound.sum_lacking
  end
  local changes = ease ~= bound.ease or spare ~= bound.spare or lot ~= bound.lot
    or lacking ~= bound.lacking
  bound.ease, bound.spare, bound.lot, bound.lacking = ease, spare, lot, lacking
  return bound.slots and next_epoch(bound) or changes
end

-- What those who live on permits leave of each bound to the others: of rates, what is not kept aside
-- for them; of slots, all but their fair shares.
local function left_for_shares()
  local left, asides = {}, permits.kept_aside()
  for b, bound in ipairs(limit.bounds) do
    left[b] = bound.whole - (bound.slots and bound.sum_aside or asides[b])
  end
  return left
end

local function differ(one, other)
  for b = 1, #one do
    if one[b] ~= other[b] then
      return true
    end
  end
  return false
end

-- What follows from a round; whether that changes the next one.
local function finish(orders)
  local was_short, wholes = permits.is_short(), state.wholes()
  local fair_units, fair_weights = shares.next_levels(limit.fair_fillings, limit.fair_units,
    limit.fair_weights, wholes, orders.fair, wholes)
  local level_units, level_weights = fair_units, fair_weights
  permits.drop_silent()
  if limit.apart and limit.on_permits > 0 then
    level_units, level_weights = shares.next_levels(limit.level_fillings, limit.level_units,
      limit.level_weights, left_for_shares(), orders.level, wholes)
  end
  local changes = differ(fair_units, limit.fair_units) or differ(fair_weights, limit.fair_weights)
    or differ(level_units, limit.level_units) or differ(level_weights, limit.level_weights)
    or limit.apart ~= (limit.on_permits > 0)
  limit.apart = limit.on_permits > 0
  limit.fair_units, limit.fair_weights = fair_units, fair_weights
  limit.level_units, limit.level_weights = level_units, level_weights
  local is_short = permits.is_short()
  if is_short and not was_short then
    limit.short_since = limit.now
  end
  for b, bound in ipairs(limit.bounds) do
    changes = spread(b, bound, is_short) or changes
  end
  return changes
end

local function orders_of()
  local wholes = state.wholes()
  return {
    fair = shares.in_order(limit.fair_units, limit.fair_weights, wholes),
    level = shares.in_order(limit.level_units, limit.level_weights, wholes),
  }
end

-- Reads what visits need of the instances from `place` on, of at most so many, into `seen`, by place.
-- False if something cannot be read.
local function read_some(seen, place, most)
  local names, texts = state.some_records(place, most)
  for i, name in ipairs(names) do
    local field, record = RECORD_PREFIX .. name, nil
    if field ~= records.own then
      local text = records.changed[field] or texts[i]
      record = text and scan_record(text, #limit.bounds)
      if not record then
        return false
      end
      record.name = name
    end
    seen[place + i - 1] = record or false
  end
  return #names > 0
end

-- Goes on with the division: visits some more instances; `own` is the record of the calling one, as it
-- is now, and `looked_at` the number of those that this request has looked at before: two of these
-- stand for a visit. False if something cannot be read, or amounts do not sum to the whole.
function division.go_on(own, looked_at)
  local most = min(MOST_VISITS - floor(looked_at / 2), VISITS_PER_MS * (limit.now - limit.shares_at))
  local visits = max(LEAST_VISITS, most)
  limit.shares_at = limit.now
  local seen, is_whole, held = {}, false, certainty.zeros()
  local orders, is_short = orders_of(), permits.is_short()
  local own_name, has_slots = sub(records.own, #RECORD_PREFIX + 1), false
  for _, bound in ipairs(limit.bounds) do
    has_slots = has_slots or bound.slots
  end
  for visited = 0, MOST_VISITS - 1 do
    if visited >= visits then
      break
    end
    if limit.visited == 0 or limit.visited == limit.instances then -- others were given up since
      state.clear_round()
      is_whole, held = true, certainty.zeros()
    end
    local place = limit.visited
    if seen[place] == nil and not read_some(seen, place, visits - visited) then
      return false
    end
    local record = seen[place] or own
    visit(record == own and own_name or record.name, record, is_short and has_slots, orders)
    if is_whole then
      for b = 1, #held do
        held[b] = held[b] + record.bounds[b].units
      end
    end
    limit.visited = place + 1
    if limit.visited == limit.instances then
      if is_whole and not certainty.amounts_agree(held, limit.instances) then
        return false
      end
      local changes = finish(orders)
      state.clear_round()
      if is_whole and not changes then
        break
      end
      orders, is_short = orders_of(), permits.is_short()
    end
  end
  return true
end

-- A share of few batches, rounded down to whole ones in each bound that is short.
local function whole_batches(record, units)
  for b, one in ipairs(record.bounds) do
    if one.piece > 0 and limit.fair_weights[b] ~= 0 then
      local worth = limit.bounds[b].worth
      local number = units[b] * worth / one.piece
      if number < WHOLE_BATCHES then
        units[b] = min(UNITS, ceil(floor(number + 1e-9) * one.piece / worth))
      end
    end
  end
end

-- How much of each bound an instance may hold; whether its fair share is less than it needs; and its
-- lots of slots.
function division.rights_of(record)
  local fair, limited = permits.fair_share(record)
  local on_permits = permits.lives_on_permits(record, fair, limited)
  local parts, is_short = parts_of(record, on_permits)
  local units, lots = {}, {}
  for b, part in ipairs(parts) do
    units[b] = floor(part)
  end
  if is_short and not on_permits then
    whole_batches(record, units)
  end
  local stretch = permits.stretch(parts)
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    if bound.slots then
      local right, lot = right_to_slots(b, record, parts, is_short, limited, on_permits)
      units[b], lots[b] = right + (has_turn(bound, one, lot) and 1 or 0), lot
    elseif on_permits then
      units[b] = 0
    elseif not limited and bound.spare > 0 then
      units[b] = min(bound.whole, one.need + floor(one.need * bound.spare))
    elseif is_short and limit.fair_weights[b] == 0 then
      units[b] = min(one.need, floor(permits.eased(bound, parts[b], true, one.piece, stretch)))
    end
  end
  return units, limited, lots
end

-- The turn of an instance begins, once it holds what it has a right to.
function division.note_turn(bound, one, right, lot)
  if one.units >= right and is_unserved(bound, one, lot) then
    one.served_at, bound.served_at = limit.now, limit.now
  end
end

-- Whether an instance that holds nothing of a bound is likely to be granted its right before its next
-- sync. A slot that did not come free within a turn is in a call that takes longer.
function division.comes_soon(bound)
  return not bound.slots or limit.now < bound.epoch_since + slots.turn_of(limit.interval)
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
