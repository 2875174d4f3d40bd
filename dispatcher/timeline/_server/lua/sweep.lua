-- Removes the ids of deleted messages whose time is up. Comes after bucket.lua.
--
-- ARGV   how many at most
-- Reply  the server's time in microseconds, how many

local limit = tonumber(ARGV[1])
local old = redis.call('ZRANGEBYSCORE', DELETED, '-inf', NOW, 'LIMIT', 0, limit)
if #old == 0 then -- a time this late is damaged
  local far = string.format('(%.0f', NOW + LONGEST)
  old = redis.call('ZRANGEBYSCORE', DELETED, far, '+inf', 'LIMIT', 0, limit)
end
if #old > 0 then
  redis.call('ZREM', DELETED, unpack(old))
end
return { NOW_US, #old }
