-- Counts messages by time and state, without looking at any of them.
--
-- KEYS   waiting, leased, dead of a bucket, then of the next ...
-- ARGV   the edges of the ranges, in order, relative (1: counted from the server's time, or 0)
-- Reply  the server's time in microseconds; for each range how many are new, lost, waiting, in
--        process, dead, in all buckets together
--
-- A range has its first edge in it and its last one not.

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now_us = server_time_us()
local now = math.floor(now_us / 1000)
local zero = ARGV[#ARGV] == '1' and now or 0
local totals = {}

-- How many of `key` are from `from` up to, and without, `to`.
local function count(key, from, to)
  if from >= to then
    return 0
  end
  return redis.call('ZCOUNT', key, string.format('%.17g', from), '(' .. string.format('%.17g', to))
end

for edge = 1, #ARGV - 2 do
  local from, to = zero + tonumber(ARGV[edge]), zero + tonumber(ARGV[edge + 1])
  local past, coming = math.min(to, now + 1), math.max(from, now + 1)
  local new, lost, waiting, processing, dead = 0, 0, 0, 0, 0
  for i = 1, #KEYS, 3 do
    new = new + count(KEYS[i], from, past)
    waiting = waiting + count(KEYS[i], coming, to)
    lost = lost + count(KEYS[i + 1], from, past)
    processing = processing + count(KEYS[i + 1], coming, to)
    dead = dead + count(KEYS[i + 2], from, to)
  end
  for _, number in ipairs({ new, lost, waiting, processing, dead }) do
    totals[#totals + 1] = number
  end
end
return { now_us, totals }
