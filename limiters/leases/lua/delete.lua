-- Forgets a limit.
--
-- KEYS   limit, members, asks, going, dear, coming, spent, totals, heard
-- Reply  whether there was one: 1 or 0

local known = redis.call('EXISTS', KEYS[1])
redis.call('DEL', unpack(KEYS))
return known
