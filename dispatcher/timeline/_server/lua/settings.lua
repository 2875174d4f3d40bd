-- Stores and returns the settings of a topic, fixed when it is first used. Comes after checked.lua
-- and stored.lua.
--
-- KEYS   settings
-- ARGV   buckets, for how many ms to remember deleted messages, and how many attempts the caller
--        allows, each "" for what is stored; the default number of buckets
-- Reply  the server's time in microseconds, buckets, remember_ms, most_attempts; -1 buckets and
--        nothing written, if their number was damaged and the caller gives none; or an error
--        UNSUPPORTED, and nothing written, on a server older than 6.2

local version = string.match(redis.call('INFO', 'server'), 'redis_version:([%w.]+)')
local major, minor = string.match(version, '^(%d+)%.(%d+)')
if tonumber(major) * 100 + tonumber(minor) < 602 then
  return redis.error_reply('UNSUPPORTED ' .. version)
end
local _, wrong = sizes_of(KEYS, { true })
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local stored = stored_settings(KEYS[1])
if stored[1] == -1 and ARGV[1] == '' then
  return { now_us, unpack(stored) }
end
local wanted = {
  stored[1] > 0 and stored[1] or tonumber(ARGV[1]) or tonumber(ARGV[4]),
  tonumber(ARGV[2]) or math.max(0, stored[2]),
  tonumber(ARGV[3]) or math.max(0, stored[3]),
}
-- A caller that gives no number changes nothing of an existing topic: it may only be reading.
local is_said = ARGV[2] ~= '' or ARGV[3] ~= ''
local is_changed = is_said and (wanted[2] ~= stored[2] or wanted[3] ~= stored[3])
local names = { 'buckets', 'remember_ms', 'most_attempts' }
if stored[1] == 0 then
  for i, name in ipairs(names) do
    redis.call('HSETNX', KEYS[1], name, string.format('%.0f', wanted[i]))
  end
elseif stored[1] == -1 or is_changed then
  redis.call('HDEL', KEYS[1], '') -- a server that is full refuses new topics, and no others
  for i, name in ipairs(names) do
    redis.call('HSET', KEYS[1], name, string.format('%.0f', wanted[i]))
  end
end
return { now_us, unpack(wanted) }
