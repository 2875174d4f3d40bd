-- Reads the earliest times of a sorted set for consumers, in order, "<d" each. Comes after
-- checked.lua.

local function times_in(key, limit)
  local entries, times = redis.call('ZRANGE', key, 0, limit - 1, 'WITHSCORES'), {}
  for i = 2, #entries, 2 do
    times[#times + 1] = struct.pack('<d', time_of(entries[i]))
  end
  return table.concat(times)
end

-- The number of due messages beyond those.
local function due_beyond(key, limit, now)
  return math.max(0, redis.call('ZCOUNT', key, '-inf', now) - limit)
end
