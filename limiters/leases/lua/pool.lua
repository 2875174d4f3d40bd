-- The partitions that nobody holds, and what was spent of them in the last period: pool.py, in
-- Lua. All of it is about one limit, which sync.lua loads.

local SLICES = 200

local limit -- what is stored of it
local capacity, full, remainder, last -- and what follows from its capacity

-- Has as many partitions as the capacity in force makes; whether that is another number.
local function follow()
  capacity = capacity_of(limit)
  local before, now = limit.partitions, partitions_of(capacity, limit.factor)
  limit.partitions = now
  full = math.floor(capacity / limit.factor + 1e-8)
  remainder = full < now and capacity / limit.factor - full or 0
  last = span(full, now)
  if before == now then
    return false
  end
  local new, gone = span(before, now), span(now, before)
  limit.condemned = union(limit.condemned, without(gone, limit.free))
  limit.free = without(limit.free, gone)
  limit.free = union(limit.free, without(new, limit.condemned))
  limit.condemned = without(limit.condemned, new)
  return true
end

-- What partitions are worth.

local function full_ones(held)
  return count(common(held, span(0, full)))
end

local function has_last(held)
  return #common(held, last) > 0
end

-- What `held` is worth, in partitions.
local function units(held)
  return full_ones(held) + (has_last(held) and remainder or 0)
end

local function free_full()
  return without(limit.free, last)
end

-- Coming and going.

local function load_spent()
  local packed = redis.call('GET', SPENT)
  if not packed then
    return {}
  end
  local spent = { struct.unpack('<' .. string.rep('d', #packed / 8), packed) }
  spent[#spent] = nil -- where it ended
  return spent
end

local function save_spent(spent)
  if #spent > 0 then
    redis.call('SET', SPENT, struct.pack('<' .. string.rep('d', #spent), unpack(spent)))
  else
    redis.call('DEL', SPENT)
  end
end

-- What was spent of the pool in the last period.
local function still_counts(spent)
  local oldest = limit.now_ms - counts_ms(limit)
  local counts = {}
  for i = 1, #spent, 2 do
    if spent[i] > oldest then
      counts[#counts + 1] = spent[i]
      counts[#counts + 1] = spent[i + 1]
    end
  end
  return counts
end

-- Keeps what was spent of those that came back: doubles, age_ms, cost, ...
-- What was spent, as entries of the pool; `packed` tells how long ago it was.
local function aged(packed)
  local slice_ms = math.max(1, math.floor(limit.period_ms / SLICES))
  local entries = {}
  for i = 1, #packed, 16 do
    local age_ms, cost = struct.unpack('<dd', packed, i)
    entries[#entries + 1] = math.ceil((limit.now_ms - age_ms) / slice_ms) * slice_ms
    entries[#entries + 1] = cost
  end
  return entries
end

local function remember(entries)
  local pool, times = {}, {}
  local function add(at, cost)
    if not pool[at] then
      times[#times + 1] = at
    end
    pool[at] = (pool[at] or 0) + cost
  end
  for _, some in ipairs({ load_spent(), entries }) do
    for i = 1, #some, 2 do
      add(some[i], some[i + 1])
    end
  end
  table.sort(times)
  local spent = {}
  for i, at in ipairs(times) do
    spent[2 * i - 1], spent[2 * i] = at, pool[at]
  end
  save_spent(still_counts(spent))
end

-- What nobody else holds of `held`, which is not free any more.
local function claim(held)
  local claimed = common(held, limit.free)
  limit.free = without(limit.free, claimed)
  return claimed
end

-- Takes `granted` out of what is free, with its part of what was spent.
local function take(granted)
  if #granted == 0 then
    return {}
  end
  local spent = still_counts(load_spent())
  local worth = units(granted)
  local part = worth / units(limit.free) * total_of(spent)
  limit.free = without(limit.free, granted)
  local taken, left = portion(spent, math.min(part, worth * limit.factor))
  save_spent(left)
  return taken
end

-- They are free again, if they still are partitions.
local function take_back(released)
  limit.free = union(limit.free, common(released, span(0, limit.partitions)))
  limit.condemned = without(limit.condemned, released)
end
