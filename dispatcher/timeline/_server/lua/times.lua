-- What consumers know of a bucket: the first times of a sorted set, in order, "<d" each. It comes after
-- checked.lua.

local function times_in(key, limit)
  local entries, times = redis.call('ZRANGE', key, 0, limit - 1, 'WITHSCORES'), {}
  for i = 2, #entries, 2 do
    times[#times + 1] = struct.pack('<d', time_of(entries[i]))
  end
  return table.concat(times)
end

-- How many are due that are not among those.
local function due_beyond(key, limit, now)
  return math.max(0, redis.call('ZCOUNT', key, '-inf', now) - limit)
end
