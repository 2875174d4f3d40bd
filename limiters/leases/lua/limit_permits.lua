-- Permits, and the queue of those who wait for one: _coordinator/permits.py in Lua.

-- The time by the clock of turns. It goes slower while whoever lives on permits and has waited
-- longest is two periods late.
local function turns_at()
  return limit.now - limit.behind
end

-- What an instance may have of the limit, by shares and permits together.
local function fair_share(record)
  return share_at(limit.fair_units, limit.fair_weight, record.need, record.weight)
end

-- What the fair share of an instance of this weight would be worth if it needed as much as it could
-- get.
local function entitlement(weight)
  local units = UNITS
  if limit.fair_weight ~= 0 then
    units = floor(weight * limit.fair_units / limit.fair_weight)
  end
  return max(1, min(UNITS, units)) * worth_of_unit()
end

-- The time in which its fair share makes up for a cost.
local function takes_for(record, cost)
  return cost * limit.period / entitlement(record.weight)
end

-- Whether a share is of little use to an instance: less than it needs, and too few batches.
local function too_small(fair, need, batch)
  return fair * worth_of_unit() < (fair < need and FEW_BATCHES or 1) * batch
end

local function lives_on_permits(record)
  local batch = record.gathers and record.ask or record.piece
  return too_small(fair_share(record), record.need, batch)
end

-- What it wants as a share, in units.
local function wants(record)
  return lives_on_permits(record) and 0 or record.need
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
local function queued_before(one, other)
  local one_waits, other_waits = one.turn > turns_at(), other.turn > turns_at()
  if one_waits ~= other_waits then
    return other_waits
  end
  return before(one, other)
end

-- Its place in the queue; nil if it does not wait, or has not been heard of for too long.
local function waiter(name, record)
  local silent = record.seen + 2 * record.interval + SILENT_MS
  if record.ask <= 0 or silent < limit.now then
    return nil
  end
  return {
    later = not lives_on_permits(record),
    turn = record.turn, since = record.ask_since, name = name, ask = record.ask, silent = silent,
    fair = entitlement(record.weight),
  }
end

-- Puts the calling instance where it belongs in the queue of the header, or removes it.
local function enqueue(name, record)
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
    if queued_before(place, queue[middle]) then
      high = middle
    else
      low = middle + 1
    end
  end
  table.insert(queue, low, place)
  queue[QUEUE_LENGTH + 1] = nil
end

-- Those whose turn it is, in order; if nobody's turn has come, the next one all the same.
local function line()
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

-- The clock of turns goes slower while one who lives on permits is too late.
local function keep_pace(elapsed)
  local first = math.huge
  for _, one in ipairs(limit.queue) do
    if not one.later and one.silent >= limit.now then
      first = min(first, one.turn)
    end
  end
  local too_late = turns_at() - CREDIT_PERIODS * limit.period - first
  limit.behind = limit.behind + max(0, min(too_late, elapsed * (1 - LEAST_PACE)))
end

-- How much of the pool is kept for permits: of the batches that are due of those who live on them,
-- in order, as many as their fair shares are worth; at least the first one. So they do not starve
-- those that hold shares. Between their turns the others may have it all. If the first is late,
-- batches do not fit together: those whose turn comes within the same time count, too.
local function kept_aside()
  local waiting, at = on_permits(), turns_at()
  if not waiting[1] or waiting[1].turn > at then
    return 0
  end
  local soon = 2 * at - waiting[1].turn
  local whole, fair, aside, due = in_force(), 0, 0, {}
  for _, one in ipairs(waiting) do
    if one.turn <= soon then
      due[#due + 1] = one
      fair = min(whole, fair + one.fair)
    end
  end
  for _, one in ipairs(due) do
    local ask = max(one.ask, FLOAT_ERROR * whole)
    local late = max(0, at - one.turn) * one.fair / (ask * limit.period)
    local batches = 1 + floor(min(late, one.fair / ask))
    local fits = floor(min((fair - aside) / ask + ROUNDED_UP, (whole - aside) / ask))
    aside = aside + ask * min(batches, max(fits, aside == 0 and 1 or 0))
  end
  return ceil(min(aside / worth_of_unit(), UNITS))
end

-- What its fair share has still to make up for stays the same cost when that share changes. A new
-- instance, where capacity is short, saves for its first batch: otherwise it would pay to come back
-- under a new name for each one.
local function follow_fair_share(record)
  local fair = entitlement(record.weight)
  if record.fair == 0 then
    if record.ask == 0 then
      return
    end
    if limit.fair_weight ~= 0 then
      record.turn = max(record.turn, turns_at() + takes_for(record, record.ask))
    end
  elseif record.turn > turns_at() then
    record.turn = turns_at() + (record.turn - turns_at()) * (record.fair / fair)
  end
  record.turn, record.fair = min(record.turn, LATEST), fair
end

-- What an instance spent on its share delays its next permit, too: both together are what it may
-- have. Waiting costs no credit; only an instance that asks for nothing loses what is too old.
local function spent_by_share(record, request, elapsed)
  if limit.fair_weight == 0 then
    record.turn = max(record.turn, turns_at())
    return
  end
  if limit.now - elapsed < limit.short_since then
    if request.spent > 0 then
      local takes = takes_for(record, max(record.ask, record.piece))
      record.turn = min(max(record.turn, turns_at() + takes), LATEST)
    end
    return
  end
  if record.ask == 0 then
    record.turn = max(record.turn, turns_at() - CREDIT_PERIODS * limit.period)
  end
  local by_share = max(0, request.spent - request.by_permit)
  record.turn = record.turn + elapsed * min(1, by_share / entitlement(record.weight))
end

-- The last permit is over; if the request reports how it was used, its entry is corrected: for the
-- fraction that has stayed in the pool.
local function correct(record, request)
  local number, at, cost = record.permit, record.permit_at, record.permit_cost
  local stayed = limit.wave == record.permit_wave and limit.stayed / record.permit_stayed or 0
  record.permit, record.permit_at, record.permit_cost = 0, 0, 0
  record.permit_stayed, record.permit_wave = 0, 0
  if number == 0 or request.permit ~= number then
    return
  end
  local ledger = ledger_of()
  ledger_subtract(ledger, at, cost * stayed)
  local used = {}
  for i = 1, #request.permit_spent, 2 do
    local age, stamp = request.permit_spent[i], at
    if age >= 0 then
      stamp = min(at, slice_end(limit.now - age, limit.period))
    end
    used[i], used[i + 1] = stamp, request.permit_spent[i + 1]
  end
  ledger_merge(ledger, believed(used, cost, limit.now - counts_of(limit)), stayed)
end

-- `part` of the pool was granted: entries of permits are no longer in it as a whole.
local function handed_over(part)
  limit.stayed = limit.stayed * (1 - part)
  if limit.stayed < MIN_STAYED then
    limit.stayed, limit.wave = 1, limit.wave + 1
  end
end

-- How soon there is room for `missing` more, as far as entries that expire make it.
local function room_at(missing, interval)
  local ledger = ledger_of()
  for i = 1, #ledger, 2 do
    missing = missing - ledger[i + 1]
    if missing <= FLOAT_ERROR * in_force() then
      return max(1, min(4 * interval, ledger[i] + counts_of(limit) - limit.now))
    end
  end
  return interval
end

-- A permit, if it is this one's turn and there is room. When to ask again; -1 for never.
local function grant_permit(name, record, request)
  local clock, due = turns_at(), line()
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
  local worth = worth_of_unit()
  local room = limit.pool * worth - ledger_total(ledger_of(), limit.now - counts_of(limit))
  for i, one in ipairs(due) do
    if i == place then
      break
    end
    room = room - one.ask
  end
  if room < record.ask - FLOAT_ERROR * in_force() then
    return room_at(record.ask - room, record.interval)
  end
  local turn = clock
  if limit.fair_weight ~= 0 then
    local takes = takes_for(record, record.ask)
    local oldest = clock - max(takes, CREDIT_PERIODS * limit.period)
    turn = min(max(oldest, record.turn), clock) + takes
  end
  record.turn = turn
  local at = slice_end(limit.now + request.valid, limit.period)
  ledger_add(ledger_of(), at, record.ask)
  limit.next_id = limit.next_id + 1
  record.permit, record.permit_at, record.permit_cost = limit.next_id, at, record.ask
  record.permit_stayed, record.permit_wave = limit.stayed, limit.wave
  -- It keeps its place until its next request says what it asks for now: otherwise others would be
  -- granted in between what it needs for its next operation.
  record.ask_since = limit.now
  enqueue(name, record)
  return -1
end
