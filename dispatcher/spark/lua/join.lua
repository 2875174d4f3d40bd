-- Lets a task send, if its epoch is the last one and no other task sends in its slot, for a
-- while. Sent again it prolongs that. It comes after fence.lua.
--
-- KEYS   fence, senders
-- ARGV   epoch, slot, id, lease_ms
-- Reply  "ok"; "superseded"; "forgotten": the fence is gone; "wait", ms: another one still sends

local fence, senders = KEYS[1], KEYS[2]
local epoch, slot, id = ARGV[1], ARGV[2], ARGV[3]
local member = epoch .. '|' .. slot .. '|' .. id
local stored = redis.call('HGET', fence, 'epoch')
if not stored then
  return { 'forgotten' }
end
if stored ~= epoch then
  -- It may finish what it has begun, and starts nothing more.
  local till = redis.call('ZSCORE', senders, member)
  if till and tonumber(till) > now then
    redis.call('ZADD', senders, now + ARGV[4], member)
  end
  return { 'superseded' }
end
local left = longest(senders, function(_, its, other) return its == slot and other ~= id end)
if left > 0 then
  return { 'wait', left }
end
redis.call('ZADD', senders, now + ARGV[4], member)
return { 'ok' }
