-- Stores which rows are acknowledged, if the task still has its send permission, and renews the
-- permission. Runs after fence.lua.
--
-- KEYS   fence, senders, sequences, those of the turn before, stream
-- ARGV   epoch, slot, id, lease_ms, kept_ms (how long a query is remembered), two turns in ms, then
--        sequence, its entry, ...
-- Reply  "ok"; "superseded": stored, and nothing more may be sent; "lost": not stored

local WORDS = 1000 -- per redis.call: Lua's stack holds a few thousand

local fence, senders, sequences = KEYS[1], KEYS[2], KEYS[3]
local epoch = ARGV[1]
local member = epoch .. '|' .. ARGV[2] .. '|' .. ARGV[3]
local till = redis.call('ZSCORE', senders, member)
if not till or tonumber(till) <= now then
  return { 'lost' }
end
redis.call('ZADD', senders, now + ARGV[4], member)
-- The number of sequences whose first rows of this batch are acknowledged now. They are not
-- counted twice when the request is sent again.
local batch = redis.call('HGET', KEYS[5], 'batch')
local first = 0
-- All fields are stored or none, also if they need more than one redis.call.
for from = 7, #ARGV, WORDS do
  local to = math.min(from + WORDS - 1, #ARGV)
  local names = {}
  for i = from, to, 2 do
    names[#names + 1] = ARGV[i]
  end
  for i, was in ipairs(redis.call('HMGET', sequences, unpack(names))) do
    local written = string.match(ARGV[from + 2 * i - 1], '^%S+')
    if string.sub(names[i], 1, 1) ~= '@' and written == batch and not (was and string.match(was, '^%S+') == batch) then
      first = first + 1
    end
  end
  redis.call('HSET', sequences, unpack(ARGV, from, to))
end
if first > 0 then
  local counted = redis.call('HGET', KEYS[5], 'acknowledged') or 0
  redis.call('HSET', KEYS[5], 'acknowledged', counted + first)
end
-- A replay may come late, so the entries are kept as long as the query is.
redis.call('PEXPIRE', sequences, ARGV[5])
redis.call('PEXPIRE', KEYS[4], ARGV[6])
return { redis.call('HGET', fence, 'epoch') == epoch and 'ok' or 'superseded' }
