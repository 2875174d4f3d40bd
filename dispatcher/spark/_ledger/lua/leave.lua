-- Says that a task sends nothing more. It is remembered that it was there, until the next claim,
-- for one that comes back and was replaced by it. It comes after fence.lua.
--
-- KEYS   senders
-- ARGV   epoch, slot, id
-- Reply  "ok"

redis.call('ZADD', KEYS[1], 'XX', now, ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[3])
return { 'ok' }
