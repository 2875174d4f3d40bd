-- Returns how long tasks of other epochs may still send. Runs after fence.lua.
--
-- KEYS   fence, senders, stream
-- ARGV   epoch
-- Reply  "ok", ms, acknowledged (see claim.lua); "superseded" or "forgotten" if there is another epoch, or none

local stored = redis.call('HGET', KEYS[1], 'epoch')
if stored ~= ARGV[1] then
  return { stored and 'superseded' or 'forgotten' }
end
local left = longest(KEYS[2], function(epoch) return epoch ~= ARGV[1] end)
return { 'ok', left, redis.call('HGET', KEYS[3], 'acknowledged') or '0' }
