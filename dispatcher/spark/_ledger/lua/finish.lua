-- Stores that a micro-batch has ended, and adds its sums to those of the query, once. Runs after
-- fence.lua.
--
-- KEYS   fence, stream, totals
-- ARGV   epoch, batch, kept_ms (how long a query is remembered), then name, number, ...
-- Reply  "ok"; "superseded" or "forgotten" if there is another epoch, or none

local stored = redis.call('HGET', KEYS[1], 'epoch')
if stored ~= ARGV[1] then
  return { stored and 'superseded' or 'forgotten' }
end
if redis.call('HGET', KEYS[2], 'finished') ~= ARGV[2] then
  redis.call('HSET', KEYS[2], 'finished', ARGV[2])
  for i = 4, #ARGV, 2 do
    redis.call('HINCRBYFLOAT', KEYS[3], ARGV[i], ARGV[i + 1])
  end
end
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('HSET', KEYS[1], 'seen_ms', now)
return { 'ok' }
