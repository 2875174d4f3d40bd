-- Divides a limit among its instances: _coordinator/division.py in Lua.

local records = state.records

-- What an instance may have of each bound at the levels for those that live on permits, or for the
-- others, before it is rounded down; and the bound that limits it, or 0.
local function parts_of(record, on_permits)
  local units = on_permits and limit.fair_units or limit.level_units
  local weights = on_permits and limit.fair_weights or limit.level_weights
  local demand = permits.demand_of(record)
  local parts, _, scarcest = shares.parts(demand, shares.scale(demand, units, weights))
  return parts, scarcest
end

-- What an instance may hold of a bound of slots, before turns: by its parts of all bounds, by the bound
-- that limits it there, and by whether it is limited by any.
local function right_to_slots(b, record, parts, scarcest, limited, on_permits)
  local bound, one = limit.bounds[b], record.bounds[b]
  if not on_permits and not limited and bound.spare > 0 then
    local units = min(bound.whole, one.need + floor(one.need * bound.spare))
    return slots.all_it_needs(bound, one, units)
  end
  return slots.right_to(b, record, parts, scarcest)
end

-- The same for slots, by its fair share.
local function visit_slots(record, parts, limited, on_permits, scarcest)
  if limit.apart and not on_permits then
    parts, scarcest = parts_of(record, false)
  end
  for b, bound in ipairs(limit.bounds) do
    if bound.slots then
      local right = right_to_slots(b, record, parts, scarcest, limited, on_permits)
      slots.visit(b, record, right)
    end
  end
end

-- Adds one instance to the sums, and puts it where it belongs in the queue.
local function visit(name, record, has_lots, orders)
  local demand, parts, limited, scarcest = permits.demand_of(record), permits.fair_share(record)
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
    visit_slots(record, parts, limited, on_permits, scarcest)
  end
  permits.requeue(name, record)
end

-- How much more than it needs or uses an instance may hold of a bound. Whether that changes the next
-- round.
local function spread(b, bound, is_short)
  local used = bound.sum_shares
  local spare, ease = 0, 1
  bound.needs = bound.sum_needs
  if is_short and limit.fair_weights[b] == 0 and used > 0 then
    ease = 1 + max(0, bound.whole - used) * EASED / used
  end
  local left = bound.whole - bound.sum_needs
  if left > 0 and bound.sum_satisfied > 0 then
    spare = left / 2 / bound.sum_satisfied
  end
  local changes = ease ~= bound.ease or spare ~= bound.spare
  bound.ease, bound.spare = ease, spare
  return bound.slots and slots.end_round(bound, is_short) or changes
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
    if one.piece > 0 and limit.fair_weights[b] ~= 0 and not limit.bounds[b].slots then
      local worth = limit.bounds[b].worth
      local number = units[b] * worth / one.piece
      if number < WHOLE_BATCHES then
        units[b] = min(UNITS, ceil(floor(number + 1e-9) * one.piece / worth))
      end
    end
  end
end

-- How much of each bound an instance may hold; whether its fair share is less than it needs; and what
-- it may hold of slots before turns, by bound.
function division.rights_of(record)
  local fair, limited = permits.fair_share(record)
  local on_permits = permits.lives_on_permits(record, fair, limited)
  local parts, scarcest = parts_of(record, on_permits)
  local units, of_slots, is_short = {}, {}, scarcest ~= 0
  for b, part in ipairs(parts) do
    units[b] = floor(part)
  end
  if is_short and not on_permits then
    whole_batches(record, units)
  end
  local stretch = permits.stretch(record, parts)
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    if bound.slots then
      of_slots[b] = right_to_slots(b, record, parts, scarcest, limited, on_permits)
      units[b] = slots.with_turn(of_slots[b], bound, one)
    elseif on_permits then
      units[b] = 0
    elseif not limited and bound.spare > 0 then
      units[b] = min(bound.whole, one.need + floor(one.need * bound.spare))
    elseif is_short and limit.fair_weights[b] == 0 then
      units[b] = min(one.need, floor(permits.eased(bound, parts[b], true, one.piece, stretch)))
    end
  end
  return units, limited, of_slots
end

-- Whether an instance that holds nothing of a bound is likely to be granted its right before its next
-- sync.
function division.comes_soon(bound, one, right)
  return not right or slots.comes_soon(bound, one, right)
end

-- How much of what it holds an instance may keep; `right` is what it may hold of slots before turns.
-- Each hand-over of a rate carries history, so nothing moves while no instance is short.
function division.kept(bound, one, units, right, before, limited, uncertain)
  if uncertain then
    return max(units, one.units)
  end
  if right then
    return slots.kept(bound, one, right, units, before)
  end
  local free = bound.pool * FREE_SHARE >= bound.whole
  if free and bound.spare > 0 and units > 0 and not limited then
    return max(units, one.units)
  end
  return units
end
