-- Marks an instance, so that it is granted nothing more and gives back what it holds.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; the instance
-- Reply  whether it is known: 1 or 0. Or an error, as of limit_set.lua.

local function evict()
  local server, version = server_identity()
  local failure = coordinator.load(ARGV[1], ARGV[2], server, version)
  if failure then
    return failure
  end
  local record = limit and state.load_own_record()
  if not record then
    return 0
  end
  record.evicted = true
  redis.call('HDEL', LIMIT, '') -- needs no memory: see limit_state.lua
  local own = state.records.own
  redis.call('HSET', LIMIT, own, sealed(own, write_record(record)))
  return 1
end

return evict()
