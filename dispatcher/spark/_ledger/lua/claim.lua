-- Claims a micro-batch for a run. Runs after fence.lua.
--
-- KEYS   fence, senders, stream
-- ARGV   claim, token, epoch (the one this run claimed last, or 0), checkpoint, batch, signature,
--        time_kind, label, remember_ms, kept_ms (how long a query is remembered), division (how the
--        batch is divided, if it is new: see division.py)
-- Reply  "ok", epoch, generation, turn, wait_ms (how long others may still send), acknowledged (of how
--        many sequences rows of this batch were acknowledged before), division (in a replay that with
--        which the batch was begun; empty if a version without divisions began it)
--        "superseded", label, checkpoint, ago_ms: another run has claimed since
--        "sent": the run itself has ended this batch, and Spark sends none again in one run
--        "behind", batch: the stream has already claimed a later batch
--        "changed", signature: the batch was begun by a sink that cuts it in another way; also if it
--        has ended, since a run that claims it again may not have received the end
--        "other_time", time_kind: the stored times are of that kind

local fence, senders, stream = KEYS[1], KEYS[2], KEYS[3]
local claim, token, known, checkpoint = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local batch, signature, time_kind = tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- The stored division names its batch: a version without divisions did not replace that of an older batch.
local function division_of(stored)
  local of, division = string.match(stored or '', '^(%d+) (.*)$')
  return of == ARGV[5] and division or ''
end

local function others_left(epoch)
  return longest(senders, function(of) return of ~= epoch end)
end

local stored = redis.call('HMGET', fence, 'epoch', 'claim', 'label', 'checkpoint', 'seen_ms',
  'token')
local at = redis.call('HMGET', stream, 'batch', 'finished', 'signature', 'generation', 'turn',
  'turned_ms', 'time_kind', 'acknowledged', 'division')
if stored[2] == claim then
  return { 'ok', stored[1], at[4], at[5], others_left(stored[1]), at[8] or '0', division_of(at[9]) }
end
if known ~= '0' and stored[1] ~= known then
  if not stored[1] then
    known = '0'
  else
    return { 'superseded', stored[3], stored[4], now - tonumber(stored[5]) }
  end
end
if token ~= '' and stored[6] == token and at[1] == ARGV[5] and at[2] == at[1] then
  return { 'sent' }
end

local generation, turn, turned = at[4] or '1', tonumber(at[5] or 0), tonumber(at[6] or now)
local kind_so_far = at[7] or time_kind
if at[1] and batch < tonumber(at[1]) then
  if checkpoint ~= '' then
    return { 'behind', at[1] }
  end
  -- Batches are numbered from 0 in each checkpoint: this is another checkpoint.
  generation = tostring(generation + 1)
  kind_so_far = time_kind
elseif at[1] and batch == tonumber(at[1]) and at[3] ~= signature then
  return { 'changed', at[3] }
end
if kind_so_far ~= time_kind then
  return { 'other_time', kind_so_far }
end
-- Not for a batch that is sent again: its entries must not be older than two turns.
if now - turned >= tonumber(ARGV[9]) and at[2] == at[1] and batch ~= tonumber(at[1]) then
  turn, turned = turn + 1, now
end

local acknowledged, division = '0', ARGV[11]
if at[1] and batch == tonumber(at[1]) then
  acknowledged, division = at[8] or '0', division_of(at[9])
end

-- The epoch is the time, so that no epoch is used twice, even if Redis has lost the last ones.
local epoch = string.format('%.0f', math.max(now, tonumber(stored[1] or 0) + 1))
redis.call('HSET', fence, 'epoch', epoch, 'claim', claim, 'token', token, 'label', ARGV[8], 'checkpoint',
  checkpoint, 'seen_ms', now)
redis.call('HSET', stream, 'batch', batch, 'signature', signature, 'generation', generation,
  'turn', turn, 'turned_ms', turned, 'time_kind', time_kind, 'acknowledged', acknowledged,
  'division', ARGV[5] .. ' ' .. division)
redis.call('PEXPIRE', stream, ARGV[10])
redis.call('PEXPIRE', fence, ARGV[10])
redis.call('ZREMRANGEBYSCORE', senders, '-inf', now)
return { 'ok', epoch, generation, tostring(turn), others_left(epoch), acknowledged, division }
