-- How many messages were created and deleted, and how many deleted ones are remembered.
--
-- KEYS   deleted, meta of a bucket, then of the next ...
-- Reply  the server's time in microseconds, created, deleted, remembered

local created, deleted, remembered = 0, 0, 0
local time = redis.call('TIME')

for i = 1, #KEYS, 2 do
  local meta = redis.call('HMGET', KEYS[i + 1], 'created', 'deleted')
  created = created + tonumber(meta[1] or 0)
  deleted = deleted + tonumber(meta[2] or 0)
  remembered = remembered + redis.call('ZCARD', KEYS[i])
end
return { time[1] * 1000000 + time[2], created, deleted, remembered }
