-- Permits, and the queue of those who wait for one: _coordinator/permits.py in Lua.

-- The time by the clock of turns. It goes slower while whoever lives on permits and has waited
-- longest is two periods late.
function permits.turns_at()
  return limit.now - limit.behind
end

local turns_at = permits.turns_at

-- What an instance needs of each bound.
function permits.demand_of(record)
  if not record.demand then
    local needs, bounds = {}, record.bounds
    for b = 1, #bounds do
      needs[b] = bounds[b].need
    end
    record.demand = { needs = needs, weight = record.weight, wholes = state.wholes() }
  end
  return record.demand
end

-- What an instance may have of each bound, by shares and permits together, before it is rounded
-- down; whether that is less than it needs; and the bound that limits it, or 0.
function permits.fair_share(record)
  local demand = permits.demand_of(record)
  return shares.parts(demand, shares.scale(demand, limit.fair_units, limit.fair_weights))
end

-- How much of its dominant bound its fair share would be if it needed as much as it could get, in
-- parts of UNITS.
local function entitlement(record)
  return shares.dominant(permits.demand_of(record), limit.fair_units, limit.fair_weights)
end

-- The rate of which an instance needs the largest part, among those that have a cost.
function permits.dominant(record, costs)
  local found, most = nil, -1
  for b, bound in ipairs(limit.bounds) do
    local part = costs[b] > 0 and not bound.slots and record.bounds[b].need / bound.whole or -1
    if part > most then
      found, most = b, part
    end
  end
  return found
end

-- The time in which its fair share makes up for a cost: for that in the bound of which it needs the
-- largest part. By the largest part of each batch, those that cost much of one bound and those that
-- cost much of another would be charged more, together, than they use of any.
function permits.time_for(record, costs)
  local b = permits.dominant(record, costs)
  if not b then
    return 0
  end
  local bound, fair = limit.bounds[b], entitlement(record)
  return costs[b] * bound.period / (fair * bound.worth)
end

-- A share of a bound that is worth fewer batches than this is of little use to an instance that needs
-- more; by the number of rates, and whether it holds some of one.
local function few_batches(bound, rates, holds)
  if rates <= 1 then
    return FEW_BATCHES
  end
  local few = min(WHOLE_BATCHES, max(FEW_BATCHES, FEW_A_SECOND * bound.period / 1000))
  return holds and few or few * FEW_WITHOUT_SHARE
end

-- How many slots a batch of an instance takes: at least one.
function permits.slots_of_batch(bound, one)
  return max(1, min(bound.whole, ceil(one.piece)))
end

-- How many times its share of slots an instance has at times, as it takes turns with them.
function permits.stretch(record, parts)
  local most = 1
  for b, bound in ipairs(limit.bounds) do
    if bound.slots and limit.fair_weights[b] ~= 0 and parts[b] > 0 then
      local piece = permits.slots_of_batch(bound, record.bounds[b])
      most = max(most, (floor(parts[b] / piece) + 1) * piece / parts[b])
    end
  end
  return most
end

-- How much of a bound an instance may hold, before that is rounded down. If it is limited by another
-- bound, it may be more than its mix uses on average, as far as there is more: what it uses while it
-- has more slots than on average, and twice as much besides as the number of its batches varies by.
function permits.eased(bound, part, limited, piece, stretch)
  if not limited or bound.ease == 1 or part <= 0 then
    return part
  end
  local batch = bound.slots and piece or max(0, piece) / bound.worth
  local used = part * stretch
  return min(part * bound.ease, used + 2 * math.sqrt(used * batch) + batch)
end

-- Whether an instance lives on permits, since its fair share of a bound is of little use to it: less
-- than it needs, and too few batches. `parts` are that share, if it is known.
function permits.lives_on_permits(record, parts, limited)
  if not parts then
    parts, limited = permits.fair_share(record)
  end
  local bounds, own, rates, holds = limit.bounds, record.bounds, 0, false
  if limited then
    for b = 1, #own do
      if not bounds[b].slots then
        rates, holds = rates + 1, holds or own[b].units > 0
      end
    end
  end
  for b = 1, #own do
    local bound, one = bounds[b], own[b]
    local least, ease = bound.slots and 0 or one.piece, 1
    if limited then
      ease = bound.ease
      least = least > 0 and few_batches(bound, rates, holds) * least or least
    end
    local worth = floor(parts[b] * ease) * bound.worth
    if worth < least or record.gathers and worth < one.ask then
      return true
    end
  end
  return false
end

-- What it asks for of each bound; and whether it asks at all.
function permits.ask_of(record)
  local ask, asks = {}, false
  for b, one in ipairs(record.bounds) do
    ask[b] = one.ask
    asks = asks or one.ask ~= 0
  end
  return ask, asks
end

-- The order of texts by their bytes: that of Lua depends on the server's locale.
local function text_before(one, other)
  for i = 1, min(#one, #other) do
    local a, b = byte(one, i), byte(other, i)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

-- The order of turns.
local function before(one, other)
  if one.later ~= other.later then
    return other.later
  end
  if one.turn ~= other.turn then
    return one.turn < other.turn
  end
  if one.since ~= other.since then
    return one.since < other.since
  end
  return text_before(one.name, other.name)
end

-- Puts one into a list in the order of turns.
local function insert(list, one)
  local place = #list + 1
  for i = #list, 1, -1 do
    if not before(one, list[i]) then
      break
    end
    list[i + 1], place = list[i], i
  end
  list[place] = one
end

-- The order of the queue: those whose turn has come first.
function permits.queued_before(one, other)
  local one_waits, other_waits = one.turn > turns_at(), other.turn > turns_at()
  if one_waits ~= other_waits then
    return other_waits
  end
  return before(one, other)
end

-- Its place in the queue; nil if it does not wait, or has not been heard of for too long.
local function waiter(name, record)
  local silent = record.seen + 2 * record.interval + SILENT_MS
  local ask, asks = permits.ask_of(record)
  if not asks or silent < limit.now then
    return nil
  end
  return {
    later = not permits.lives_on_permits(record),
    turn = record.turn, since = record.ask_since, name = name, ask = ask, silent = silent,
    fair = entitlement(record),
  }
end

-- Puts the calling instance where it belongs in the queue of the header, or removes it.
function permits.enqueue(name, record)
  local queue = limit.queue
  for i = #queue, 1, -1 do
    if queue[i].name == name then
      table.remove(queue, i)
    end
  end
  local place = waiter(name, record)
  if not place then
    return
  end
  -- As bisect does: the queue was in order when it was made, and turns have come since.
  local low, high = 1, #queue + 1
  for _ = 1, #queue do
    if low >= high then
      break
    end
    local middle = floor((low + high) / 2)
    if permits.queued_before(place, queue[middle]) then
      high = middle
    else
      low = middle + 1
    end
  end
  table.insert(queue, low, place)
  queue[QUEUE_LENGTH + 1] = nil
end

-- The same for an instance that is visited: if it does not wait, it is not in the queue.
function permits.requeue(name, record)
  for _, one in ipairs(record.bounds) do
    if one.ask ~= 0 then
      permits.enqueue(name, record)
      return
    end
  end
end

-- Removes those from the queue that have not been heard of for too long.
function permits.drop_silent()
  local queue = {}
  for _, one in ipairs(limit.queue) do
    if one.silent >= limit.now then
      queue[#queue + 1] = one
    end
  end
  limit.queue = queue
end

-- Those whose turn it is, in order; if nobody's turn has come, the next one all the same.
function permits.line()
  local due, first = {}, nil
  for _, one in ipairs(limit.queue) do
    if one.silent >= limit.now then
      if one.turn <= turns_at() then
        insert(due, one)
      elseif not first or before(one, first) then
        first = one
      end
    end
  end
  if #due == 0 then
    due[1] = first
  end
  return due
end

-- Those who wait and live on permits, in order.
local function on_permits()
  local waiting = {}
  for _, one in ipairs(limit.queue) do
    if not one.later and one.silent >= limit.now then
      insert(waiting, one)
    end
  end
  return waiting
end

-- For how long at most turns that were missed are made up for.
local function credit()
  local longest = 0
  for _, bound in ipairs(limit.bounds) do
    if not bound.slots then
      longest = max(longest, bound.period)
    end
  end
  return CREDIT_PERIODS * longest
end

-- Whether some bound is less than what all need.
function permits.is_short()
  for b = 1, #limit.bounds do
    if limit.fair_weights[b] ~= 0 then
      return true
    end
  end
  return false
end

-- The clock of turns goes slower while one who lives on permits is too late.
function permits.keep_pace(elapsed)
  local first = math.huge
  for _, one in ipairs(limit.queue) do
    if not one.later and one.silent >= limit.now then
      first = min(first, one.turn)
    end
  end
  local too_late = turns_at() - credit() - first
  limit.behind = limit.behind + max(0, min(too_late, elapsed * (1 - LEAST_PACE)))
end

-- What of the pools is kept for the batches of one that is due, behind those before it: what one of
-- them costs of each bound, and how many of those that all bounds let go fit into its window, as far as
-- its fair share and those before it reach.
local function batches_for(one, fairs, asides, wholes, worths)
  local late, flow, first, asks, numbers = math.huge, math.huge, true, {}, {}
  local late_for = max(0, turns_at() - one.turn)
  for b, whole in ipairs(wholes) do
    first = first and asides[b] == 0
    asks[b], numbers[b] = 0, 0
    if one.ask[b] ~= 0 then
      local ask, fair = max(one.ask[b], FLOAT_ERROR * whole), one.fair * worths[b]
      local period = limit.bounds[b].period
      late, flow = min(late, late_for * fair / (ask * period)), min(flow, fair / ask / period)
      asks[b] = ask
    end
  end
  local all = true
  for b, whole in ipairs(wholes) do
    local ask = asks[b]
    if ask ~= 0 then
      local batches = flow * limit.bounds[b].period * (1 + FLOAT_ERROR)
      batches = min(late, one.fair * worths[b] / ask, batches)
      local room = min((fairs[b] - asides[b]) / ask + ROUNDED_UP, (whole - asides[b]) / ask)
      numbers[b] = min(1 + floor(batches), max(floor(room), first and 1 or 0))
      all = all and numbers[b] ~= 0
    end
  end
  return asks, numbers, all
end

-- How much of each pool is kept for permits: of the batches that are due of those who live on them,
-- in order, as many as their fair shares are worth; at least the first one. So they do not starve
-- those that hold shares. Between their turns the others may have it all. If the first is late,
-- batches do not fit together: those whose turn comes within the same time count, too.
function permits.kept_aside()
  local waiting, at, asides = on_permits(), turns_at(), certainty.zeros()
  if not waiting[1] or waiting[1].turn > at then
    return asides
  end
  local soon, due = 2 * at - waiting[1].turn, {}
  local wholes, worths, fairs = {}, {}, certainty.zeros()
  for b, bound in ipairs(limit.bounds) do
    wholes[b], worths[b] = bound.slots and 0 or state.in_force(bound), bound.worth
  end
  for _, one in ipairs(waiting) do
    if one.turn <= soon then
      due[#due + 1] = one
      for b, whole in ipairs(wholes) do
        fairs[b] = min(whole, fairs[b] + one.fair * worths[b])
      end
    end
  end
  for _, one in ipairs(due) do
    local asks, numbers, all = batches_for(one, fairs, asides, wholes, worths)
    if all then
      for b, ask in ipairs(asks) do
        asides[b] = asides[b] + ask * numbers[b]
      end
    end
  end
  for b, worth in ipairs(worths) do
    asides[b] = ceil(min(asides[b] / worth, UNITS))
  end
  return asides
end

-- What its fair share has still to make up for stays the same cost when that share changes. A new
-- instance, where capacity is short, saves for its first batch: otherwise it would pay to come back
-- under a new name for each one.
function permits.follow_fair_share(record)
  local fair, fairs, is_new, ratio = entitlement(record), {}, true, 0
  for b, bound in ipairs(limit.bounds) do
    fairs[b] = bound.slots and 0 or fair * bound.worth
    is_new = is_new and (bound.slots or record.bounds[b].fair == 0)
    if fairs[b] ~= 0 then
      ratio = max(ratio, record.bounds[b].fair / fairs[b])
    end
  end
  if is_new then
    local ask, asks = permits.ask_of(record)
    if not asks then
      return
    end
    if permits.is_short() then
      record.turn = max(record.turn, turns_at() + permits.time_for(record, ask))
    end
  elseif record.turn > turns_at() then
    record.turn = turns_at() + (record.turn - turns_at()) * ratio
  end
  record.turn = min(record.turn, LATEST)
  for b, one in ipairs(record.bounds) do
    one.fair = limit.bounds[b].slots and one.fair or fairs[b]
  end
end

-- What an instance spent on its share delays its next permit, too: both together are what it may
-- have. Waiting costs no credit; only an instance that asks for nothing loses what is too old.
function permits.spent_by_share(record, request, elapsed)
  if not permits.is_short() then
    record.turn = max(record.turn, turns_at())
    return
  end
  local ask, asks = permits.ask_of(record)
  if limit.now - elapsed < limit.short_since then
    local spent, costs = false, {}
    for b, said in ipairs(request.bounds) do
      spent = spent or said.spent > 0
      costs[b] = max(ask[b], record.bounds[b].piece)
    end
    if spent then
      record.turn = min(max(record.turn, turns_at() + permits.time_for(record, costs)), LATEST)
    end
    return
  end
  if not asks then
    record.turn = max(record.turn, turns_at() - credit())
  end
  local by_share = {}
  for b, said in ipairs(request.bounds) do
    by_share[b] = max(0, said.spent - said.by_permit)
  end
  local b = permits.dominant(record, by_share)
  if b then
    local worth = entitlement(record) * limit.bounds[b].worth
    record.turn = record.turn + elapsed * min(1, by_share[b] / worth)
  end
end

-- The last permit is over; if the request reports how it was used, its entries are corrected: for the
-- fraction that has stayed in the pool.
function permits.correct(record, request)
  local number = record.permit
  record.permit = 0
  local reported = number ~= 0 and request.permit == number
  for b, bound in ipairs(limit.bounds) do
    local one, said = record.bounds[b], request.bounds[b]
    local at, cost = one.permit_at, one.permit_cost
    local stayed = 0
    if reported and cost ~= 0 and bound.wave == one.permit_wave then
      stayed = bound.stayed / one.permit_stayed
    end
    one.permit_at, one.permit_cost, one.permit_stayed, one.permit_wave = 0, 0, 0, 0
    if reported and cost ~= 0 then
      local entries, used = state.ledger_of(bound), {}
      ledger.subtract(entries, at, cost * stayed)
      for i = 1, #said.permit_spent, 2 do
        local age, stamp = said.permit_spent[i], at
        if age >= 0 then
          stamp = min(at, ledger.slice_end(limit.now - age, bound.period))
        end
        used[i], used[i + 1] = stamp, said.permit_spent[i + 1]
      end
      local since = limit.now - state.counts_of(bound)
      ledger.merge(entries, ledger.believed(used, cost, since), stayed)
    end
  end
end

-- `part` of a pool was granted: entries of permits are no longer in it as a whole.
function permits.handed_over(bound, part)
  bound.stayed = bound.stayed * (1 - part)
  if bound.stayed < MIN_STAYED then
    bound.stayed, bound.wave = 1, bound.wave + 1
  end
end

-- How soon there is room for `missing` more of a bound, as far as entries that expire make it.
local function room_at(bound, missing, interval)
  local entries = state.ledger_of(bound)
  for i = 1, #entries, 2 do
    missing = missing - entries[i + 1]
    if missing <= FLOAT_ERROR * state.in_force(bound) then
      return max(1, min(4 * interval, entries[i] + state.counts_of(bound) - limit.now))
    end
  end
  return interval
end

-- How much room the pool of a bound lacks for a cost, behind those of `due` before `place`; 0 if it
-- lacks nothing that matters.
local function missing_in(b, bound, ask, due, place)
  local spent = ledger.total(state.ledger_of(bound), limit.now - state.counts_of(bound))
  local room = bound.pool * bound.worth - spent
  for i, one in ipairs(due) do
    if i == place then
      break
    end
    room = room - one.ask[b]
  end
  if room >= ask - FLOAT_ERROR * state.in_force(bound) then
    return 0
  end
  return ask - room
end

-- A permit, if it is this one's turn and there is room in all bounds: for all of them, or for none.
-- When to ask again; -1 for never.
function permits.grant(name, record, request)
  local clock, due = turns_at(), permits.line()
  local place
  for i, one in ipairs(due) do
    if one.name == name then
      place = i
      break
    end
  end
  if not place then
    if record.turn <= clock then -- others have waited longer: the next sync is soon enough
      return -1
    end
    return min(4 * record.interval, ceil(record.turn - clock) + 1)
  end
  local back
  for b, bound in ipairs(limit.bounds) do
    local ask = record.bounds[b].ask
    if ask ~= 0 then
      local missing = missing_in(b, bound, ask, due, place)
      if missing > 0 then
        back = max(back or 0, room_at(bound, missing, record.interval))
      end
    end
  end
  if back then
    return back
  end
  local turn = clock
  if permits.is_short() then
    local takes = permits.time_for(record, (permits.ask_of(record)))
    turn = min(max(clock - max(takes, credit()), record.turn), clock) + takes
  end
  record.turn = turn
  limit.next_id = limit.next_id + 1
  record.permit = limit.next_id
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    if one.ask ~= 0 then
      local latest = limit.now + request.valid + state.running_of(bound)
      local at = ledger.slice_end(latest, bound.period)
      ledger.add(state.ledger_of(bound), at, one.ask)
      one.permit_at, one.permit_cost = at, one.ask
      one.permit_stayed, one.permit_wave = bound.stayed, bound.wave
      one.refundable = min(one.refundable + one.ask, MAX_AMOUNT)
    end
  end
  -- It keeps its place until its next request says what it asks for now: otherwise others would be
  -- granted in between what it needs for its next operation.
  record.ask_since = limit.now
  permits.enqueue(name, record)
  return -1
end
