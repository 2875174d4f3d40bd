-- Deletes what the first format stored of a limit, and keeps its place occupied. The instances of
-- that format may spend until their leases have ended, so the registry says that.
--
-- KEYS   the nine keys of the first format; the registry, but not in a cluster
-- ARGV   the name of the limit
-- Reply  whether there was such a limit: 1 or 0. Or the error WRONGTYPE and the registry's key, and
--        nothing written, if that is no hash

local MOST = 9
local KEPT = KEYS[MOST + 1]

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return 0
end
local kind = KEPT and redis.call('TYPE', KEPT).ok or 'none'
if kind ~= 'hash' and kind ~= 'none' then
  return redis.error_reply('WRONGTYPE ' .. KEPT)
end
local read = redis.call('HMGET', KEYS[1], 'lease_ms', 'period_ms')
local lease, period = tonumber(read[1] or 0) or 0, tonumber(read[2] or 0) or 0
redis.call('SET', KEYS[1], 'kept by format ' .. FORMAT)
redis.call('DEL', unpack(KEYS, 2, MOST))
if KEPT then
  local field, now, server = RECORD_PREFIX .. ARGV[1], server_time(), server_identity()
  local known = registry.stored(KEPT, field)
  if not known or known.server ~= server then
    known = registry.new(server, now)
  end
  local guard = math.max(GUARD_MS, math.ceil(period * GUARD_MS / 1000))
  local ends = now + math.max(DEFAULT_SPAN, lease + period + guard)
  known.names_until = math.max(ends, known.names_until)
  registry.store(KEPT, field, known)
end
return 1
