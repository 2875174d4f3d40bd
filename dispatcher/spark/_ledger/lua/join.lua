-- Gives a task the send permission for one lease, if its epoch is the last one and no other task
-- sends in its slot. Sent again it renews the permission. Runs after fence.lua.
--
-- KEYS   fence, senders
-- ARGV   epoch, slot, id, lease_ms, kept_ms (how long a query is remembered)
-- Reply  "ok"; "superseded"; "forgotten": the fence is gone; "wait", ms: another task still sends;
--        "replaced": another task has sent in its slot since its own permission expired

local fence, senders = KEYS[1], KEYS[2]
local epoch, slot, id = ARGV[1], ARGV[2], ARGV[3]
local member = epoch .. '|' .. slot .. '|' .. id
local stored = redis.call('HGET', fence, 'epoch')
if not stored then
  return { 'forgotten' }
end
if stored ~= epoch then
  -- It may finish the batches that it has begun, and starts no more.
  local till = redis.call('ZSCORE', senders, member)
  if till and tonumber(till) > now then
    redis.call('ZADD', senders, now + ARGV[4], member)
  end
  return { 'superseded' }
end
local mine = redis.call('ZSCORE', senders, member)
if mine and tonumber(mine) <= now then
  -- A task that has joined later has a later time, also if it has left.
  for _, found in ipairs(redis.call('ZRANGEBYSCORE', senders, mine, '+inf')) do
    local its_epoch, its_slot = string.match(found, '^(%d+)|([^|]*)|')
    if found ~= member and its_epoch == epoch and its_slot == slot then
      return { 'replaced' }
    end
  end
end
local left = longest(senders, function(_, its, other) return its == slot and other ~= id end)
if left > 0 then
  return { 'wait', left }
end
redis.call('ZADD', senders, now + ARGV[4], member)
redis.call('PEXPIRE', senders, ARGV[5])
return { 'ok' }
