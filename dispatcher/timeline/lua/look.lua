-- Looks at buckets without changing them. It comes after times.lua.
--
-- KEYS   waiting, leased of a bucket, then of the next ...
-- ARGV   how many times of each at most
-- Reply  the server's time in microseconds; for each key its first times

local time = redis.call('TIME')
local seen = {}

for i, key in ipairs(KEYS) do
  seen[i] = times_in(key, tonumber(ARGV[1]))
end
return { time[1] * 1000000 + time[2], seen }
