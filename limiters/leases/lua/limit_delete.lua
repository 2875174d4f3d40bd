-- Forgets a limit, its terms and its totals, exactly as Coordinator.delete in
-- _coordinator/coordinator.py. What is left of it expires when nothing of it can be out any more.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; a text that was never used before, for the nonce
-- Reply  whether there was one: 1 or 0. Or an error, as of limit_set.lua.

-- Those of what cannot be read.
local UNKNOWN_TERMS = {
  factor = 1, lease = DEFAULT_LEASE_MS, layout = '', version = 0, served = false,
  bounds = { {
    capacity = 1, period = DEFAULT_PERIOD_MS, lasting = ledger.counts_for(DEFAULT_PERIOD_MS),
    slots = false, in_force = 0, rising = 0,
  } },
}

local function delete()
  local server, version = server_identity()
  if not coordinator.is_token(ARGV[2]) then
    return redis.error_reply('INVALID this can be no nonce')
  end
  local failure = coordinator.load(ARGV[1], nil, server, version)
  if failure then
    return failure
  end
  if limit and limit.deleted or not limit and not coordinator.is_unreadable() then
    return 0
  end
  local clock, token = server_time(), ARGV[2]
  local now = coordinator.confirmed_time(nil, server, clock)
  coordinator.open(limit or UNKNOWN_TERMS, server, now, token)
  limit.now = math.max(limit.now, now)
  state.resize_all()
  coordinator.operator_starts_over(now, token, 'an operator deleted it')
  limit.deleted, state.people.reset = true, true
  limit.version, limit.served = math.max(limit.version + 1, clock), true
  coordinator.store_time(server, now, clock - now)
  state.save(nil)
  return 1
end

return delete()
