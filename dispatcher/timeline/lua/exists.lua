-- Whether a topic was ever used, without making it.
--
-- KEYS   settings
-- Reply  the server's time in microseconds, its buckets, 0 if it was not

local time = redis.call('TIME')
return { time[1] * 1000000 + time[2], tonumber(redis.call('HMGET', KEYS[1], 'buckets')[1] or 0) }
