-- Forgets deleted messages that were remembered for long enough. It comes after bucket.lua.
--
-- ARGV   how many at most
-- Reply  the server's time in microseconds, how many

local old = redis.call('ZRANGEBYSCORE', DELETED, '-inf', NOW, 'LIMIT', 0, tonumber(ARGV[1]))
if #old > 0 then
  redis.call('ZREM', DELETED, unpack(old))
end
return { NOW_US, #old }
