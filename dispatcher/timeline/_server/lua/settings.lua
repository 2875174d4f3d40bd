-- What a topic is: fixed when it is first used.
--
-- KEYS   settings
-- ARGV   buckets, if nobody has said so before; what the caller wants remembered of deleted
--        messages in ms and how many attempts it allows, each "" for what is stored
-- Reply  the server's time in microseconds, buckets, remember_ms, most_attempts; or an error
--        UNSUPPORTED, and nothing written, on a server older than 6.2

local version = string.match(redis.call('INFO', 'server'), 'redis_version:([%w.]+)')
local major, minor = string.match(version, '^(%d+)%.(%d+)')
if tonumber(major) * 100 + tonumber(minor) < 602 then
  return redis.error_reply('UNSUPPORTED ' .. version)
end
redis.call('HSETNX', KEYS[1], 'buckets', ARGV[1])
for i, field in ipairs({ 'remember_ms', 'most_attempts' }) do
  if ARGV[i + 1] ~= '' then
    redis.call('HSET', KEYS[1], field, ARGV[i + 1])
  else
    redis.call('HSETNX', KEYS[1], field, 0)
  end
end
local time = redis.call('TIME')
local stored = redis.call('HMGET', KEYS[1], 'buckets', 'remember_ms', 'most_attempts')
return { time[1] * 1000000 + time[2], unpack(stored) }
