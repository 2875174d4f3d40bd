-- When a coordinator may grant, and who may claim what it holds: _coordinator/certainty.py in Lua.

certainty.DISAGREES = 'what is stored of it did not agree'
certainty.UNREADABLE = 'what is stored of it cannot be read'

local records = state.records

-- Forgets who holds what of a bound.
local function start_bound(b)
  state.resize(b)
  b.pool, b.entries, b.back, b.is_open = b.whole, {}, {}, true
  b.stayed, b.wave = 1, b.wave + 1
  b.needs, b.spare, b.ease, b.lot, b.lacking = 0, 0, 1, 0, 0
  b.epoch, b.epoch_since, b.served_at = 0, NEVER, NEVER
  b.turns, b.line_at, b.line_from, b.keeps, b.scale = 0, NEVER, NEVER, 1, 1
end

local function forget_levels()
  limit.fair_units, limit.fair_weights, limit.level_units, limit.level_weights = {}, {}, {}, {}
  for i = 1, #limit.bounds do
    limit.fair_units[i], limit.fair_weights[i] = 0, 0
    limit.level_units[i], limit.level_weights[i] = 0, 0
  end
end

-- Whether these are terms of the same bounds.
function certainty.has_bounds_of(terms)
  if not limit.bounds or limit.layout ~= terms.layout or #limit.bounds ~= #terms.bounds then
    return false
  end
  for i, b in ipairs(terms.bounds) do
    if b.slots ~= limit.bounds[i].slots then
      return false
    end
  end
  return true
end

-- Has other terms. If these are of other bounds, all of them start over.
function certainty.follow(terms)
  local same = certainty.has_bounds_of(terms)
  if not same then
    limit.bounds = {}
    for i, one in ipairs(terms.bounds) do
      limit.bounds[i] = {
        slots = one.slots, capacity = one.capacity, ramp_from = 0, ramp_at = 0, ramp_rate = 0,
        peak = 0, peak_until = NEVER, whole = UNITS, pool = UNITS, wave = 0,
      }
      start_bound(limit.bounds[i])
    end
    forget_levels()
    state.clear_round()
  end
  for i, one in ipairs(terms.bounds) do
    local b = limit.bounds[i]
    b.capacity, b.period, b.lasting = one.capacity, one.period, one.lasting
  end
  limit.factor, limit.lease, limit.layout = terms.factor, terms.lease, terms.layout
  limit.version, limit.served = terms.version, terms.served
end

-- Follows other terms. A capacity that was rising goes on from what was in force.
local function adopt(terms)
  certainty.follow(terms)
  for i, one in ipairs(terms.bounds) do
    local b = limit.bounds[i]
    if one.rising > 0 and one.in_force > 0 and one.in_force < one.capacity then
      b.ramp_from, b.ramp_at, b.ramp_rate = one.in_force, limit.now, one.rising
    else
      b.ramp_from, b.ramp_at, b.ramp_rate = 0, 0, 0
    end
  end
  state.resize_all()
end

local function start(now, token)
  limit.now, limit.nonce = now, token
  limit.next_id = max(limit.next_id, now * 1000) -- also after everything was forgotten
  for _, b in ipairs(limit.bounds) do
    start_bound(b)
  end
  forget_levels()
  limit.instances, limit.queue = 0, {}
  records.forgotten = true
  state.forget_blocks()
  state.clear_round()
  limit.apart = false
  limit.shares_at, limit.short_since, limit.gap_since, limit.gap_until = NEVER, NEVER, NEVER, NEVER
  limit.older_gap_since, limit.older_gap_until = NEVER, NEVER
  limit.due, limit.collected, limit.next_due = now, 0, LATEST
  limit.behind = 0
end

-- Forgets who holds what: instances that hold something claim it, with the new nonce.
function certainty.start_over(now, token, cause)
  limit.doubted, limit.cause = true, cause
  limit.interval = 0 -- of those who are forgotten, maybe under a longer lease
  start(now, token)
end

-- Becomes uncertain: forgets who holds what, with a new nonce.
function certainty.doubt(server, now, token, cause)
  if limit.server ~= server then
    for _, b in ipairs(limit.bounds) do
      if b.ramp_rate > 0 then -- it began at a time of the other server
        b.ramp_from, b.ramp_at = state.in_force(b), now
      end
      b.peak_until = NEVER
    end
    limit.server, limit.not_before = server, NEVER
    limit.now, limit.skew = now, 0
  end
  limit.since, limit.last = now, now
  certainty.start_over(now, token, cause)
end

-- A limit that nobody has used yet.
function certainty.new_limit(terms, server, now, token)
  limit = {
    server = server, nonce = token, cause = '', now = now, skew = 0, since = NEVER, proven = 0,
    not_before = NEVER, last = now, interval = 0, doubted = false, deleted = false, next_id = 0,
    arrivals = 0, visited = 0, on_permits = 0,
    apart = false,
  }
  adopt(terms)
  start(now, token)
end

-- Nothing is granted before this time.
function certainty.end_of_doubt()
  local longest = max(limit.proven, state.span_of(limit), DEFAULT_SPAN)
  return max(limit.not_before, limit.since + longest)
end

-- For how long it stays uncertain; 0 if it is certain.
function certainty.remaining()
  return max(0, certainty.end_of_doubt() - limit.now)
end

-- Whether the limit is certain, and nobody holds, spends or waits for anything: then it does not
-- matter how far the server's clock is believed.
function certainty.nothing_is_out(now)
  if now < certainty.end_of_doubt() then
    return false
  end
  for _, b in ipairs(limit.bounds) do
    local last = b.entries[#b.entries - 1]
    if b.pool ~= b.whole or #b.back > 0 or last and last > now - state.counts_of(b) then
      return false
    end
  end
  return true
end

-- Whether another server answered the sender after this one took over.
function certainty.is_news(request)
  return request.server ~= '' and request.server ~= limit.server
    and limit.now - request.age > limit.since
end

-- Whether a request holds units of any bound.
local function holds(request)
  for _, said in ipairs(request.bounds) do
    if said.units ~= 0 then
      return true
    end
  end
  return false
end

-- Terms of a higher rank replace others while uncertain; and the longest span of a lease that may
-- be out bounds the uncertainty.
function certainty.learn_terms(request, uncertain)
  if not uncertain then
    limit.proven = state.span_of(limit)
    return
  end
  if request.left > 0 and holds(request) then
    limit.proven = max(limit.proven, state.span_of(request))
  end
  if request.version > limit.version
    or (request.version == limit.version and request.served and not limit.served) then
    if not certainty.has_bounds_of(request) then
      -- What was claimed so far is of bounds that are no more. It may be spent all the same.
      limit.not_before = certainty.last_use()
      start(limit.now, limit.nonce)
    end
    adopt(request)
  end
end

-- Whether instances under these terms may share the limit.
function certainty.agrees_with(terms)
  if terms.lease ~= limit.lease or not certainty.has_bounds_of(terms) then
    return false
  end
  for i, one in ipairs(terms.bounds) do
    local b = limit.bounds[i]
    if one.period ~= b.period or one.lasting ~= b.lasting then
      return false
    end
  end
  return true
end

-- Whether the amounts of each bound sum to its whole, and the records are as many as the header
-- says; `held` is what all of them hold of each bound, and nil if one cannot be read.
function certainty.amounts_agree(held, count)
  if not held or count ~= limit.instances then
    return false
  end
  for i, b in ipairs(limit.bounds) do
    local sum = b.pool + held[i]
    for k = 2, #b.back, 2 do
      sum = sum + b.back[k]
    end
    if sum ~= b.whole then
      return false
    end
  end
  return true
end

-- A list of zeros, one for each bound.
function certainty.zeros()
  local zeros = {}
  for i = 1, #limit.bounds do
    zeros[i] = 0
  end
  return zeros
end

-- Since the last request the time could not be confirmed: another server may have been in charge, and
-- have renewed each lease that had not ended by then. Two gaps are kept apart if what the first one
-- extended had ended when the second began. If there would be three, the last two count as one, until
-- the first can delay no instance any more.
function certainty.note_gap()
  local longest = 0
  for _, b in ipairs(limit.bounds) do
    longest = max(longest, b.lasting)
  end
  if limit.gap_until < limit.last and limit.older_gap_until + longest <= limit.now then
    limit.older_gap_since, limit.older_gap_until = limit.gap_since, limit.gap_until
    limit.gap_since = limit.last
  end
  limit.gap_until = max(limit.gap_until, limit.now + limit.lease)
end

-- When a lease has ended that was to end at `gone`, also if another server renewed it in a gap.
local function lease_end(gone)
  if gone >= limit.older_gap_since then
    gone = max(gone, limit.older_gap_until)
  end
  return gone >= limit.gap_since and max(gone, limit.gap_until) or gone
end

-- When what a silent instance holds of a bound comes back, from when its lease has ended: none of its
-- charges there count any more.
function certainty.returns_at(gone, b)
  return lease_end(gone) + b.lasting
end

-- When something of an instance comes back first, if it is silent from now on; and when nothing is
-- left of it; by when its lease is over, and what it holds of each bound. One that holds nothing is
-- known a little longer: as long as its shortest charges count.
function certainty.due_and_gone(gone, held)
  local first, shortest, longest = math.huge, math.huge, 0
  for i = 1, #held do
    local lasting = limit.bounds[i].lasting
    shortest = lasting < shortest and lasting or shortest
    if held[i] ~= 0 then
      first = lasting < first and lasting or first
      longest = lasting > longest and lasting or longest
    end
  end
  local ends, all = lease_end(gone), max(shortest, longest)
  return ends + min(first, all), ends + all
end

-- Up to then something may be out, or count: after a change by an operator nothing is granted
-- before. And whether all that is stored agrees.
function certainty.last_use()
  local last = max(limit.now, certainty.end_of_doubt())
  local held, count = certainty.zeros(), 0
  local all = state.listed()
  for i = 1, #all, 2 do
    local name, text = all[i], all[i + 1]
    if byte(name) == state.RECORD_BYTE and not records.removed[name] then
      local record = read_record(unsealed(name, text), #limit.bounds)
      count = count + 1
      if not record then
        held = nil
        break
      end
      for k, b in ipairs(limit.bounds) do
        local units = record.bounds[k].units
        held[k] = held[k] + units
        if units ~= 0 then
          last = max(last, certainty.returns_at(record.gone, b))
        end
      end
    end
  end
  for _, b in ipairs(limit.bounds) do
    local counts = state.counts_of(b)
    for i = 1, #b.entries, 2 do
      last = max(last, b.entries[i] + counts)
    end
    for i = 1, #b.back, 2 do
      last = max(last, b.back[i])
    end
  end
  return last, certainty.amounts_agree(held, count)
end
