-- Looks at buckets without changing them. It comes after times.lua.
--
-- KEYS   waiting, leased of a bucket, then of the next ...
-- ARGV   how many times of each at most
-- Reply  the server's time in microseconds; for each key its first times; for each key how many
--        more are due

local time = redis.call('TIME')
local now, limit = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1])
local seen, beyond = {}, {}

for i, key in ipairs(KEYS) do
  seen[i], beyond[i] = times_in(key, limit), due_beyond(key, limit, now)
end
return { time[1] * 1000000 + time[2], seen, beyond }
