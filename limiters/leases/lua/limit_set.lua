-- Changes the terms of a limit, exactly as Coordinator.set_terms in _coordinator/coordinator.py.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; a text that was never used before, for the nonce; capacity, factor,
--        period, lease and ramp (cost a millisecond), packed, 0 for what stays as it is
-- Reply  1; 0 if there is no such limit and not all terms are given; a capacity and a factor, as
--        texts, if they made too many partitions: then nothing is changed. Or an error, as of
--        limit_sync.lua; FORMAT and its number for a limit of another format; INVALID if this is no
--        change that an operator can make.

local function set_terms()
  local server, version = server_identity()
  local change = read_change(ARGV[3])
  if not change or not fits_change(change) or not is_token(ARGV[2]) then
    return redis.error_reply('INVALID no limit can have these terms')
  end
  local failure = load(ARGV[1], nil, server, version)
  if failure then
    return failure
  end
  local capacity, factor, period = change.capacity, change.factor, change.period
  local lease, ramp = change.lease, change.ramp
  local known, token = limit ~= nil and not limit.deleted, ARGV[2]
  if not known and (capacity == 0 or factor == 0 or period == 0 or lease == 0) then
    return 0
  end
  if capacity ~= 0 or factor ~= 0 then
    local goal = capacity ~= 0 and capacity or limit.capacity
    local worth = factor ~= 0 and factor or limit.factor
    if goal / worth - FLOAT_ERROR > MAX_PARTITIONS then
      return { string.format('%.17g', goal), string.format('%.17g', worth) }
    end
  end
  local clock = server_time()
  local now = confirmed_time(nil, server, clock)
  local given = {
    capacity = capacity, factor = factor, period = period, lease = lease, version = 0,
    served = false, in_force = 0, rising = 0,
  }
  open(known and limit or given, server, now, token)
  limit.now = max(limit.now, now)
  local _, agree = last_use()
  if not agree then
    doubt(limit.server, limit.now, token, DISAGREES)
  end
  local before, old_span = in_force(), span_of(limit)
  local peak = max(before, limit.now < limit.peak_until and limit.peak or 0)
  local old_lease, old_period = limit.lease, limit.period
  lease, period = lease ~= 0 and lease or old_lease, period ~= 0 and period or old_period
  if known and (lease ~= old_lease or period ~= old_period) then
    operator_starts_over(now, token, 'an operator changed the lease or the period')
  end
  limit.capacity = capacity ~= 0 and capacity or limit.capacity
  limit.factor = factor ~= 0 and factor or limit.factor
  limit.lease, limit.period = lease, period
  limit.version, limit.served = max(limit.version + 1, clock), true
  limit.deleted = false
  if capacity ~= 0 then
    limit.ramp_from, limit.ramp_at, limit.ramp_rate = 0, 0, 0
    if known then
      limit.ramp_from, limit.ramp_at, limit.ramp_rate = before, limit.now, ramp
      limit.peak, limit.peak_until = peak, limit.now + max(old_span, span_of(limit))
    end
  end
  store_time(server, now, clock - now)
  save(nil)
  return 1
end

return set_terms()
