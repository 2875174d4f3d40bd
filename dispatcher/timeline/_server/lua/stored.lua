-- Reads the settings of a topic: its buckets, 0 if it was never used or was forgotten; for how long
-- deleted messages are remembered, in ms; how many attempts it allows. -1 for a damaged number. It
-- comes after checked.lua.

local function stored_number(text, most)
  local number = natural(text)
  return number and number <= most and number or -1
end

local function stored_settings(key)
  local stored = redis.call('HMGET', key, 'buckets', 'remember_ms', 'most_attempts')
  local buckets = stored_number(stored[1], 4096)
  if buckets == 0 and (stored[1] or stored[2] or stored[3]) then
    buckets = -1 -- all are stored together
  end
  return { buckets, stored_number(stored[2], LONGEST), stored_number(stored[3], LATEST) }
end
