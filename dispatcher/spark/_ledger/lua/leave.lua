-- Ends the send permission of a task that sends nothing more. Its entry stays until the next claim,
-- so that an older attempt that comes back sees that it was replaced. Runs after fence.lua.
--
-- KEYS   senders
-- ARGV   epoch, slot, id
-- Reply  "ok"

redis.call('ZADD', KEYS[1], 'XX', now, ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[3])
return { 'ok' }
