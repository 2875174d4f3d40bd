-- For how long others than those of an epoch may still send. It comes after fence.lua.
--
-- KEYS   fence, senders
-- ARGV   epoch
-- Reply  "ok", ms; "superseded" or "forgotten" if there is another epoch, or none

local stored = redis.call('HGET', KEYS[1], 'epoch')
if stored ~= ARGV[1] then
  return { stored and 'superseded' or 'forgotten' }
end
return { 'ok', longest(KEYS[2], function(epoch) return epoch ~= ARGV[1] end) }
