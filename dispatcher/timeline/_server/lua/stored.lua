-- What is stored of a topic: its buckets, 0 if it was never used or was forgotten; for how long
-- deleted messages are remembered, in ms; how many attempts it allows.

local function stored_settings(key)
  local stored = redis.call('HMGET', key, 'buckets', 'remember_ms', 'most_attempts')
  return { tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or 0) }
end
