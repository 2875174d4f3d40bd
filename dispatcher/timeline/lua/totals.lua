-- How many messages were created, deleted and given up, and how many deleted ones are remembered.
--
-- KEYS   deleted, meta of a bucket, then of the next ...
-- Reply  the server's time in microseconds, created, deleted, given up, remembered

local created, deleted, dead, remembered = 0, 0, 0, 0
local time = redis.call('TIME')

for i = 1, #KEYS, 2 do
  local meta = redis.call('HMGET', KEYS[i + 1], 'created', 'deleted', 'dead')
  created = created + tonumber(meta[1] or 0)
  deleted = deleted + tonumber(meta[2] or 0)
  dead = dead + tonumber(meta[3] or 0)
  remembered = remembered + redis.call('ZCARD', KEYS[i])
end
return { time[1] * 1000000 + time[2], created, deleted, dead, remembered }
