-- Says that a task sends nothing more. It comes after fence.lua.
--
-- KEYS   senders
-- ARGV   epoch, slot, id
-- Reply  "ok"

redis.call('ZREM', KEYS[1], ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[3])
return { 'ok' }
