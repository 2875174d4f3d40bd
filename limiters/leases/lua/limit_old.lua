-- Deletes what the first format stored of a limit, and keeps its place occupied. The instances of
-- that format may spend until their leases have ended, so the registry says that.
--
-- KEYS   the nine keys of the first format; the registry, but not in a cluster
-- ARGV   the name of the limit
-- Reply  whether there was such a limit: 1 or 0. Or the error WRONGTYPE and the registry's key, and
--        nothing written, if that is no hash

local MOST = 9
local REGISTRY = KEYS[MOST + 1]

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return 0
end
local kind = REGISTRY and redis.call('TYPE', REGISTRY).ok or 'none'
if kind ~= 'hash' and kind ~= 'none' then
  return redis.error_reply('WRONGTYPE ' .. REGISTRY)
end
local read = redis.call('HMGET', KEYS[1], 'lease_ms', 'period_ms')
local lease, period = tonumber(read[1] or 0) or 0, tonumber(read[2] or 0) or 0
redis.call('SET', KEYS[1], 'kept by format ' .. FORMAT)
redis.call('DEL', unpack(KEYS, 2, MOST))
if REGISTRY then
  local field, now, server = RECORD_PREFIX .. ARGV[1], server_time(), server_identity()
  local known = redis.call('HMGET', REGISTRY, 'header', 'server', field)
  if not read_registry(known[1]) or known[2] ~= server then -- it would be replaced, and forget
    local new = { format = FORMAT, since = now, now = NEVER, skew = 0 }
    redis.call('DEL', REGISTRY)
    redis.call('HSET', REGISTRY, 'header', write_registry(new), 'server', server)
  end
  local guard = math.max(GUARD_MS, math.ceil(period * GUARD_MS / 1000))
  local ends = now + math.max(DEFAULT_SPAN, lease + period + guard)
  ends = math.max(ends, tonumber(known[3] or NEVER) or NEVER)
  redis.call('HSET', REGISTRY, field, string.format('%.17g', ends))
end
return 1
