-- Reads the earliest times of buckets. Comes after checked.lua and times.lua.
--
-- KEYS   waiting, leased of a bucket, then of the next ...
-- ARGV   how many times of each at most
-- Reply  the server's time in microseconds; for each bucket the first times of both and how many more
--        are due, or which of its keys is of another type

local time = redis.call('TIME')
local now, limit = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1])
local seen = {}

for i = 1, #KEYS, 2 do
  local waiting, leased = KEYS[i], KEYS[i + 1]
  local _, wrong = sizes_of({ waiting, leased }, { false })
  seen[#seen + 1] = wrong and named_by(wrong) or {
    times_in(waiting, limit), times_in(leased, limit),
    due_beyond(waiting, limit, now) + due_beyond(leased, limit, now),
  }
end
return { time[1] * 1000000 + time[2], seen }
