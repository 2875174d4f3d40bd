-- Returns the settings of a topic, without creating it. Comes after checked.lua and stored.lua.
--
-- KEYS   settings
-- Reply  the server's time in microseconds, the settings

local _, wrong = sizes_of(KEYS, { true })
if wrong then
  return wrong
end
local time = redis.call('TIME')
return { time[1] * 1000000 + time[2], stored_settings(KEYS[1]) }
