-- Whether a topic was ever used, without making it.
--
-- KEYS   settings
-- Reply  the server's time in microseconds, 1 or 0

local time = redis.call('TIME')
return { time[1] * 1000000 + time[2], redis.call('EXISTS', KEYS[1]) }
