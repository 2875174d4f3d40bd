-- Counts present and past messages of buckets, each bucket at one moment. Comes after
-- checked.lua.
--
-- KEYS   waiting, leased, dead, deleted, meta of a bucket, then of the next ...
-- Reply  the server's time in microseconds; the first times of waiting and of leased, "<d" each;
--        how many are new, lost, waiting, in process, dead; were created, deleted, given up; are
--        remembered: in all buckets together

local found, wrong = sizes_of(KEYS, { false, false, false, false, true })
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
local heads = { math.huge, math.huge }
local sums = { 0, 0, 0, 0, 0, 0, 0, 0, 0 }

for i = 1, #KEYS, 5 do
  local facts = {}
  for set = 1, 2 do
    local key = KEYS[i + set - 1]
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    heads[set] = math.min(heads[set], time_of(first[2]) or math.huge)
    facts[set] = redis.call('ZCOUNT', key, '-inf', now)
    facts[set + 2] = found[i + set - 1] - facts[set]
  end
  facts[5] = found[i + 2]
  local meta = redis.call('HMGET', KEYS[i + 4], 'created', 'deleted', 'dead')
  for field = 1, 3 do
    facts[5 + field] = natural(meta[field]) or 0
  end
  facts[9] = found[i + 3]
  for fact, number in ipairs(facts) do
    sums[fact] = sums[fact] + number
  end
end
return { now_us, struct.pack('<dd', heads[1], heads[2]), sums }
