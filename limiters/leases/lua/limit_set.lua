-- Changes the terms of a limit, exactly as Coordinator.set_terms in _coordinator/coordinator.py.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; a text that was never used before, for the nonce; the layout of the
--        limit whose bounds are changed; the numbers of _format.CHANGE and CHANGE_BOUND, packed, 0 for
--        what stays as it is
-- Reply  1; 0 if there is no such limit and not all terms are given; a capacity and a factor, as
--        texts, if they made too many partitions: then nothing is changed. The layout of the limit, as
--        a text, if it is another one and not all terms are given. Or an error, as of limit_sync.lua;
--        FORMAT and its number for a limit of another format; INVALID if this is no change that an
--        operator can make.

-- Whether a change says all that a new limit needs.
local function is_whole(change)
  if #change.bounds == 0 or change.factor == 0 or change.lease == 0 then
    return false
  end
  for _, one in ipairs(change.bounds) do
    if one.capacity == 0 or one.period == 0 then
      return false
    end
  end
  return true
end

-- Whether it is a change of the bounds of the limit.
local function is_of_limit(change)
  return #change.bounds == 0 or certainty.has_bounds_of(change)
end

-- The terms of a new bound.
local function new_bound(one)
  local usual = one.period + ledger.guard_for(one.period)
  return {
    capacity = one.capacity, period = one.period, slots = one.slots, in_force = 0, rising = 0,
    lasting = one.lasting ~= 0 and one.lasting or usual,
  }
end

-- What the terms of a bound become.
local function changed_bound(b, one)
  local period, lasting = b.period, b.lasting
  if one and one.period ~= 0 then
    period = one.period
    lasting = state.running_of(b) + period + ledger.guard_for(period)
  end
  return {
    capacity = one and one.capacity ~= 0 and one.capacity or b.capacity, period = period,
    lasting = one and one.lasting ~= 0 and one.lasting or lasting, slots = b.slots, in_force = 0,
    rising = 0,
  }
end

-- What the terms become.
local function goal_of(change, same)
  local goal = { layout = change.layout, factor = change.factor, lease = change.lease, bounds = {} }
  if same then
    goal.layout = limit.layout
    goal.factor = change.factor ~= 0 and change.factor or limit.factor
    goal.lease = change.lease ~= 0 and change.lease or limit.lease
    for i, b in ipairs(limit.bounds) do
      goal.bounds[i] = changed_bound(b, change.bounds[i])
    end
  else
    for i, one in ipairs(change.bounds) do
      goal.bounds[i] = new_bound(one)
    end
  end
  goal.version, goal.served = 0, false
  return goal
end

local function fits(goal)
  for _, b in ipairs(goal.bounds) do
    if not state.fits_bound(b) then
      return false
    end
  end
  return true
end

-- The capacity of each changed bound rises from what was in force, and spending on that still counts.
local function raise(change, same, before, old_span)
  for i, one in ipairs(change.bounds) do
    if one.capacity ~= 0 then
      local b = limit.bounds[i]
      b.ramp_from, b.ramp_at, b.ramp_rate = 0, 0, 0
      if same then
        b.peak = before[i].peak
        b.peak_until = limit.now + max(old_span, state.span_of(limit))
        b.ramp_from, b.ramp_at, b.ramp_rate = before[i].in_force, limit.now, one.ramp
      end
    end
  end
end

local function set_terms()
  local server, version = server_identity()
  local change = read_change(ARGV[3], ARGV[4])
  if not change or not fits_change(change) or not coordinator.is_token(ARGV[2]) then
    return redis.error_reply('INVALID no limit can have these terms')
  end
  local failure = coordinator.load(ARGV[1], nil, server, version)
  if failure then
    return failure
  end
  local known, token = limit ~= nil and not limit.deleted, ARGV[2]
  if not known and not is_whole(change) then
    return 0
  end
  local same = known and is_of_limit(change)
  if known and not same and not is_whole(change) then
    return limit.layout
  end
  local goal = goal_of(change, same)
  if not fits(goal) then
    return redis.error_reply('INVALID no limit can have these terms')
  end
  local capacity = change.bounds[1] and change.bounds[1].capacity or 0
  if (capacity ~= 0 or change.factor ~= 0) and not state.is_divisible(goal) then
    return {
      string.format('%.17g', goal.bounds[1].capacity), string.format('%.17g', goal.factor),
    }
  end
  local clock = server_time()
  local now = coordinator.confirmed_time(nil, server, clock)
  coordinator.open(known and limit or goal, server, now, token)
  limit.now = max(limit.now, now)
  state.resize_all()
  if limit.instances <= MOST_VISITS and not coordinator.agrees() then
    certainty.doubt(limit.server, limit.now, token, certainty.DISAGREES)
  end
  local before, old_span = {}, state.span_of(limit)
  for i, b in ipairs(limit.bounds) do
    local in_force = state.in_force(b)
    before[i] = { in_force = in_force, peak = state.most_in_force(b) }
  end
  if known and not certainty.agrees_with(goal) then
    local what = same and 'the lease or the period' or 'its dimensions'
    coordinator.operator_starts_over(now, token, 'an operator changed ' .. what)
    state.people.reset = not same -- what was counted of one dimension is not of another
  end
  goal.version, goal.served = max(limit.version + 1, clock), true
  certainty.follow(goal)
  limit.deleted = false
  raise(change, same, before, old_span)
  state.resize_all()
  coordinator.store_time(server, now, clock - now)
  state.save(nil)
  return 1
end

return set_terms()
