-- Lists the present consumers of a topic. Comes after checked.lua and stored.lua.
--
-- KEYS   `members`, a sorted set: consumer -> until when it counts, unless it comes again; settings
-- ARGV   consumer, for how many ms it counts from now on (0: it leaves; "": it only looks)
-- Reply  the server's time in microseconds; the topic's settings; consumer, until, consumer,
--        until ...

local _, wrong = sizes_of(KEYS, { false, true })
if wrong then
  return wrong
end

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now_us = server_time_us()
local now = math.floor(now_us / 1000)
if ARGV[2] ~= '' then -- a call that only reads may be at a replica
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif ARGV[2] ~= '' then
  local ends = now + tonumber(ARGV[2])
  -- The clock was set back since: consumers that still run register again.
  redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', ends), '+inf')
  redis.call('ZADD', KEYS[1], ends, ARGV[1])
end
local after_now = string.format('(%.0f', now)
return { now_us, stored_settings(KEYS[2]),
  redis.call('ZRANGE', KEYS[1], after_now, '+inf', 'BYSCORE', 'WITHSCORES') }
