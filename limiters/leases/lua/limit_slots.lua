-- Who has one of the slots that are left over: _coordinator/slots.py in Lua.

-- How long a turn lasts: a fixed number of sync intervals.
function slots.turn_of(interval)
  return EPOCH_INTERVALS * max(1, interval)
end

-- The lot of an instance for the fraction of a slot in its share: a slot goes to those with the
-- smallest lots.
function slots.lot_of(part, arrival, epoch)
  local fraction = part - floor(part)
  if fraction <= 0 then
    return LOT_BUCKETS
  end
  local place = (arrival % PLACES + epoch % PLACES) * GOLDEN_PLACES % PLACES
  return floor(min(place / PLACES * LOTS / fraction, LOT_BUCKETS))
end

-- Up to which lot, itself not included, instances have one slot more, by how many have each lot.
function slots.drawn(lots, left)
  for lot = 0, LOT_BUCKETS - 1 do
    left = left - (lots[lot] or 0)
    if left < 0 then
      return lot
    end
  end
  return LOT_BUCKETS
end
