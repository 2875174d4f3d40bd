-- Checks whether buckets are as their scripts leave them, by lengths and by the first of each set. It
-- comes after checked.lua; bucket.lua says what the keys are.
--
-- KEYS   those of a bucket, then of the next ...
-- Reply  the server's time in microseconds; for each bucket 1 if its parts fit together, or 0; or
--        which of its keys is of another type

local KINDS = { false, false, true, true, false, false, false, true } -- which keys are hashes

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local told = {}

local function beyond(key, limit)
  return redis.call('ZCOUNT', key, string.format('(%.0f', limit), '+inf')
end

local function first_has_body(key, messages)
  local first = redis.call('ZRANGE', key, 0, 0)[1]
  return not first or redis.call('HEXISTS', messages, first) == 1
end

local function fits(keys, sizes)
  local placed = sizes[1] + sizes[2] + sizes[6]
  local totals = redis.call('HMGET', keys[8], 'created', 'deleted', 'dead', 'token')
  local created, deleted = natural(totals[1]), natural(totals[2])
  return sizes[3] == placed
    and sizes[4] <= placed
    and sizes[5] == sizes[2]
    and redis.call('ZCOUNT', keys[5], 0, 0) == sizes[5]
    and created and deleted and created - deleted == placed
    and natural(totals[3]) and natural(totals[4])
    and beyond(keys[1], LATEST) == 0
    and beyond(keys[2], now + LONGEST) == 0
    and first_has_body(keys[1], keys[3])
    and first_has_body(keys[2], keys[3])
    and first_has_body(keys[6], keys[3])
end

for bucket = 1, #KEYS, #KINDS do
  local keys = {}
  for i = 1, #KINDS do
    keys[i] = KEYS[bucket + i - 1]
  end
  local sizes, wrong = sizes_of(keys, KINDS)
  told[#told + 1] = wrong and named_by(wrong) or fits(keys, sizes) and 1 or 0
end
return { time[1] * 1000000 + time[2], told }
