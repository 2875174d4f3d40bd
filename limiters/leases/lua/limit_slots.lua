-- Who has a right to how many slots, and for how long: _coordinator/slots.py and slot_rights.py in
-- Lua. What an instance may hold is a table: `units` without a turn, `whole` if no other had one,
-- `piece` (how many slots a batch takes), `rest` (how much of a batch was rounded off), `lot`, `place`
-- (in the line), `fair` (before anything is rounded off), `scales` (whether slots limit it).

-- How long a turn lasts: a fixed number of sync intervals.
function slots.turn_of(interval)
  return EPOCH_INTERVALS * max(1, interval)
end

-- A place between 0 and 1 that is another one in each epoch.
local function place_of(arrival, epoch)
  return (arrival % PLACES + epoch % PLACES) * GOLDEN_PLACES % PLACES / PLACES
end

-- The lot of an instance for the fraction of a slot in its share: a slot goes to those with the
-- smallest lots.
local function lot_of(part, arrival, epoch)
  local fraction = part - floor(part)
  if fraction <= 0 then
    return LOT_BUCKETS
  end
  return floor(min(place_of(arrival, epoch) * LOTS / fraction, LOT_BUCKETS))
end

-- Up to which lot, itself not included, instances have one slot more, by how many have each lot.
local function drawn(lots, left)
  for lot = 0, LOT_BUCKETS - 1 do
    left = left - (lots[lot] or 0)
    if left < 0 then
      return lot
    end
  end
  return LOT_BUCKETS
end

-- The place in the line of an instance that has saved up for so many turns more than one: below LOTS
-- if its turn has come.
local function line_of(late, arrival, epoch)
  if late < 0 then
    return LOTS + floor(min(1, -late) * (LOTS - 1))
  end
  return floor(LOTS * (1 + place_of(arrival, epoch)) / 2 / (1 + late))
end

-- Up to which place in the line, itself not included, instances have turns: of the slots that are left
-- by turns under way; those whose turn has not come only of those that are free.
local function turns_in(lots, left, free, saved, whole)
  for place = 0, LOT_BUCKETS - 1 do
    local count = lots[LOT_BUCKETS + place] or 0
    local has_come = place < LOTS and saved > 0
    if count > 0 and (count > left and left < whole or count > free and not has_come) then
      return place
    end
    left, free, saved = left - count, free - count, saved - count
  end
  return LOT_BUCKETS
end

-- Whether an instance is to have a slot more in this epoch, and has not had one.
local function is_unserved(right, bound, one)
  return right.lot < bound.lot and one.served_at < bound.epoch_since
end

local function is_on(one)
  return limit.now < one.served_at + slots.turn_of(limit.interval)
end

-- Whether its turn with one batch of several slots more is under way.
local function has_line_turn(right, bound, one)
  return is_on(one) and one.served_at > bound.line_from and right.rest > 0
end

-- What an instance may hold now.
function slots.with_turn(right, bound, one)
  if right.piece > 1 then
    local in_turn = has_line_turn(right, bound, one) or right.place < bound.turns
    return in_turn and right.whole + right.piece or right.units
  end
  local more = right.lot < bound.lot and (is_on(one) or is_unserved(right, bound, one))
  return right.units + (more and 1 or 0)
end

-- What an instance with these parts of all bounds may hold of one, before turns; `scarcest` is the
-- bound that limits it, or 0.
function slots.right_to(b, record, parts, scarcest)
  local bound, one = limit.bounds[b], record.bounds[b]
  local piece, part = permits.slots_of_batch(bound, one), parts[b]
  if scarcest ~= 0 and bound.ease ~= 1 then
    part = permits.eased(bound, part, true, piece, permits.stretch(record, parts))
  end
  part = min(one.need, part)
  local right = {
    piece = piece, rest = 0, lot = LOT_BUCKETS, place = LOT_BUCKETS, fair = part, scales = false,
  }
  if piece > 1 then
    local number = floor(part / piece)
    right.rest = part / piece - number
    if right.rest > 0 and one.due_at ~= NEVER then
      local late = (limit.now - one.due_at) * right.rest / slots.turn_of(limit.interval)
      right.place = line_of(late, record.arrival, bound.epoch)
    end
    right.units, right.whole = floor(number * bound.keeps) * piece, number * piece
    return right
  end
  right.scales = scarcest == b
  if right.scales then
    part = min(one.need, part * bound.scale)
  else
    part = part * bound.keeps
  end
  right.units, right.whole, right.lot = floor(part), 0, lot_of(part, record.arrival, bound.epoch)
  return right
end

-- The right of an instance where none is short of slots, to so many.
function slots.all_it_needs(bound, one, units)
  return {
    units = units, whole = units, piece = permits.slots_of_batch(bound, one), rest = 0,
    lot = LOT_BUCKETS, place = LOT_BUCKETS, fair = units, scales = false,
  }
end

-- Adds the right of an instance whose batches take several slots to the sums of a round.
local function visit_line(bound, one, right, units, is_there)
  local parts = shares.parts_of(bound.whole)
  bound.sum_rest = bound.sum_rest + floor(right.rest * right.piece * parts)
  local count = right.whole + right.piece
  if is_there and has_line_turn(right, bound, one) then
    bound.sum_rest = bound.sum_rest - right.piece * parts
    bound.sum_turns = bound.sum_turns + count
  elseif is_there and right.place < LOT_BUCKETS then
    local lots, place = bound.counts_of_lots, LOT_BUCKETS + right.place
    lots[place] = (lots[place] or 0) + count
  end
  if is_there and units == count then
    bound.sum_taken = bound.sum_taken + units
  else
    bound.sum_kept = bound.sum_kept + right.whole * parts
  end
end

-- Adds the right of one instance to the sums of a round.
function slots.visit(b, record, right)
  local bound, one = limit.bounds[b], record.bounds[b]
  local is_there = record.seen + 2 * record.interval + SILENT_MS >= limit.now
  local units = is_there and slots.with_turn(right, bound, one) or right.units
  if right.piece > 1 then
    visit_line(bound, one, right, units, is_there)
    bound.sum_rights = bound.sum_rights + units
  else
    local lots, lot = bound.counts_of_lots, right.lot
    bound.sum_rights = bound.sum_rights + right.units
    if lot < LOT_BUCKETS then
      lots[lot] = (lots[lot] or 0) + 1
    end
    local part = floor(right.fair * shares.parts_of(bound.whole))
    if right.scales then
      bound.sum_scaled = bound.sum_scaled + part
    else
      bound.sum_kept = bound.sum_kept + part
    end
  end
  if is_there then
    bound.sum_lacking = bound.sum_lacking + max(0, units - one.units)
    if one.units < units and is_unserved(right, bound, one) then
      bound.sum_unserved = bound.sum_unserved + 1
    end
  end
end

-- Turns with batches of several slots: those that have none share what is left, first those that
-- slots do not limit. Up to which place in the line there are turns, up to when turns that began are
-- over, and the parts that are left.
local function spread_turns(bound)
  local parts, keeps, scale = shares.parts_of(bound.whole), 1, 1
  local kept, scaled = bound.sum_kept / parts, bound.sum_scaled / parts
  local left = bound.whole - bound.sum_turns
  local from = left < 0 and limit.now or bound.line_from -- there are fewer slots than there were
  local free = left - kept - scaled
  local turns = turns_in(bound.counts_of_lots, left, free, bound.sum_rest / parts, bound.whole)
  left = max(0, bound.whole - bound.sum_taken)
  if kept > left then
    keeps = left / kept
  end
  if scaled > 0 then
    scale = max(0, left - kept) / scaled
  end
  return turns, from, keeps, scale
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

-- Who has the slots that are left over, and who has a turn, after a round. Whether that changes the
-- next one.
function slots.end_round(bound, is_short)
  local lot, lacking, turns, from, keeps, scale = 0, 0, 0, bound.line_from, 1, 1
  if is_short then
    lot, lacking = drawn(bound.counts_of_lots, bound.whole - bound.sum_rights), bound.sum_lacking
    if bound.sum_rest ~= 0 or bound.sum_turns ~= 0 then
      turns, from, keeps, scale = spread_turns(bound)
    end
  end
  local changes = lot ~= bound.lot or lacking ~= bound.lacking or turns ~= bound.turns
    or from ~= bound.line_from or keeps ~= bound.keeps or scale ~= bound.scale
  bound.lot, bound.lacking, bound.turns = lot, lacking, turns
  bound.line_from, bound.keeps, bound.scale = from, keeps, scale
  return next_epoch(bound) or changes
end

-- The turn of an instance begins, once it holds what it has a right to.
function slots.note_turn(bound, one, right)
  if right.piece == 1 then
    if one.units >= slots.with_turn(right, bound, one) and is_unserved(right, bound, one) then
      one.served_at, bound.served_at = limit.now, limit.now
    end
    return
  end
  if right.rest <= 0 or not permits.is_short() then
    one.due_at = max(one.due_at, limit.now) -- it does not save while it lacks nothing
    return
  end
  local turn = slots.turn_of(limit.interval)
  local saves, before = turn / right.rest, one.fair
  one.fair = right.rest * right.piece
  if one.due_at == NEVER then -- a new one saves first: else new names would be of use
    one.due_at = min(limit.now + ceil(saves), LATEST)
  elseif one.due_at > limit.now and before > 0 then -- what it lacks stays if its share changes
    local lacks = (one.due_at - limit.now) * (before / one.fair)
    one.due_at = min(limit.now + ceil(lacks), LATEST)
  end
  local is_under_way = has_line_turn(right, bound, one)
  if right.place < bound.turns and not is_under_way and one.units >= right.whole + right.piece then
    one.served_at, bound.line_at = limit.now, limit.now
    one.due_at = min(max(one.due_at, limit.now - turn) + ceil(saves), LATEST)
  end
end

-- It saves for what it held before and has no right to, too: for calls that last longer than its turn,
-- and for slots that were free, but for those no longer than a new one.
function slots.note_use(bound, one, right, before, keep, elapsed)
  local turn = slots.turn_of(limit.interval)
  local over = min(elapsed, limit.now - one.served_at - turn)
  local excess = before - slots.with_turn(right, bound, one)
  if right.piece == 1 or right.rest <= 0 or min(over, excess) <= 0 or one.due_at == NEVER then
    return
  end
  local due_at = one.due_at + ceil(over * excess / (right.piece * right.rest))
  if before <= keep then
    due_at = min(due_at, max(one.due_at, limit.now + ceil(turn / right.rest)))
  end
  one.due_at = min(due_at, LATEST)
end

-- Whether an instance that holds nothing is likely to be granted its right before its next sync.
-- Slots that did not come free within a turn are in calls that take longer.
function slots.comes_soon(bound, one, right)
  local turn = slots.turn_of(limit.interval)
  if right.piece > 1 then
    return limit.now < max(one.due_at, bound.line_at + turn) + turn
  end
  return limit.now < bound.epoch_since + turn
end

-- How many slots more an instance is granted that has a right to `units`: a batch more than that, if
-- it needs it and the slots are free and no other has a right to them; it may not keep them. And
-- no part of what a batch takes.
function slots.granted(bound, one, right, units)
  local piece = right.piece
  if one.units == units and units < one.need and bound.pool - bound.lacking >= piece then
    units = units + piece
  end
  if units - one.units > bound.pool and piece > 1 then
    units = floor((one.units + max(0, bound.pool)) / piece) * piece
  end
  return min(units - one.units, bound.pool)
end

-- How many slots an instance may keep. What was free a moment ago may be used until the next request;
-- then it stays only while others are free. While more are held than there are now, an instance keeps
-- none: calls that end make room, and none begins.
function slots.kept(bound, one, right, units, before)
  if bound.pool < 0 then
    return 0
  end
  if bound.pool > bound.lacking or one.units > max(units, before) then
    return units + floor(max(0, min(one.units, one.need) - units) / right.piece) * right.piece
  end
  return units
end
