-- Converts the entities of a gate of another version of the library, unless this one has
-- entities by now.
--
-- KEYS   entities, children, emitted, totals of this format; then those of the one before; then
--        registrations and all other keys of the one before
-- Reply  how many registrations and messages were held in that format: they are dropped

if redis.call('HLEN', KEYS[1]) > 0 or redis.call('HLEN', KEYS[5]) == 0 then
  return { 0, 0, 0 }
end
for i = 1, 4 do
  if i > 1 then
    redis.call('UNLINK', KEYS[i])
  end
  if redis.call('EXISTS', KEYS[i + 4]) == 1 then
    redis.call('RENAME', KEYS[i + 4], KEYS[i])
  end
end
local held = redis.call('HMGET', KEYS[4], 'metadata', 'telemetry')
local lost = { redis.call('HLEN', KEYS[9]), tonumber(held[1] or 0), tonumber(held[2] or 0) }
redis.call('HDEL', KEYS[4], 'metadata', 'telemetry', 'number', 'auto', 'children')
for i = 9, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return lost
