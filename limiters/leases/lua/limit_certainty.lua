-- When a coordinator may grant, and who may claim what it holds: _coordinator/certainty.py in Lua.

local DISAGREES = 'what is stored of it did not agree'
local UNREADABLE = 'what is stored of it cannot be read'

-- Follows other terms. A capacity that was rising goes on from what was in force.
local function adopt(terms)
  if terms.rising > 0 and terms.in_force > 0 and terms.in_force < terms.capacity then
    limit.ramp_from, limit.ramp_at, limit.ramp_rate = terms.in_force, limit.now, terms.rising
  else
    limit.ramp_from, limit.ramp_at, limit.ramp_rate = 0, 0, 0
  end
  limit.capacity, limit.factor = terms.capacity, terms.factor
  limit.period, limit.lease = terms.period, terms.lease
  limit.version, limit.served = terms.version, terms.served
end

local function start(now, token)
  limit.now, limit.nonce = now, token
  limit.next_id = max(limit.next_id, now * 1000) -- also after everything was forgotten
  limit.pool, limit.ledger, limit.returning = UNITS, {}, {}
  limit.stayed, limit.wave = 1, limit.wave + 1
  limit.instances, limit.queue = 0, {}
  records.forgotten = true
  limit.kept_until, limit.shares_at = NEVER, NEVER
  limit.due = now
  limit.fair_units, limit.fair_weight, limit.level_units, limit.level_weight = 0, 0, 0, 0
  limit.needs, limit.spare, limit.short_since, limit.behind = 0, 0, NEVER, 0
end

-- Forgets who holds what: instances that hold something claim it, with the new nonce.
local function start_over(now, token, cause)
  limit.doubted, limit.cause = true, cause
  limit.interval = 0 -- of those who are forgotten, maybe under a longer lease
  start(now, token)
end

-- Becomes uncertain: forgets who holds what, with a new nonce.
local function doubt(server, now, token, cause)
  if limit.server ~= server then
    if limit.ramp_rate > 0 then -- it began at a time of the other server
      limit.ramp_from, limit.ramp_at = in_force(), now
    end
    limit.server, limit.not_before, limit.peak_until = server, NEVER, NEVER
    limit.now, limit.skew = now, 0
  end
  limit.since, limit.last = now, now
  start_over(now, token, cause)
end

-- A limit that nobody has used yet.
local function new_limit(terms, server, now, token)
  limit = {
    server = server, nonce = token, cause = '', now = now, skew = 0, since = NEVER, proven = 0,
    not_before = NEVER, last = now, interval = 0, doubted = false, deleted = false, wave = 0,
    next_id = 0, peak = 0, peak_until = NEVER,
  }
  adopt(terms)
  start(now, token)
end

-- Nothing is granted before this time.
local function end_of_doubt()
  local longest = max(limit.proven, span_of(limit), DEFAULT_SPAN)
  return max(limit.not_before, limit.since + longest)
end

-- For how long it stays uncertain; 0 if it is certain.
local function remaining()
  return max(0, end_of_doubt() - limit.now)
end

-- Whether the limit is certain, and nobody holds, spends or waits for anything: then it does not
-- matter how far the server's clock is believed.
local function nothing_is_out(now)
  if now < end_of_doubt() or limit.pool < UNITS or #limit.returning > 0 then
    return false
  end
  local ledger = ledger_of()
  local last = ledger[#ledger - 1]
  return not (last and last > now - counts_of(limit))
end

-- Whether another server answered the sender after this one took over.
local function is_news(request)
  return request.server ~= '' and request.server ~= limit.server
    and limit.now - request.age > limit.since
end

-- Terms of a higher rank replace others while uncertain; and the longest span of a lease that may
-- be out bounds the uncertainty.
local function learn_terms(request, uncertain)
  if not uncertain then
    limit.proven = span_of(limit)
    return
  end
  if request.left > 0 and request.units ~= 0 then
    limit.proven = max(limit.proven, span_of(request))
  end
  if request.version > limit.version
    or (request.version == limit.version and request.served and not limit.served) then
    adopt(request)
  end
end

-- Whether instances under these terms may share the limit.
local function agrees_with(terms)
  return terms.lease == limit.lease and terms.period == limit.period
end

-- Whether the amounts sum to the whole limit, and the records are as many as the header says;
-- `held` is what all of them hold, and nil if one cannot be read.
local function amounts_agree(held, count)
  if not held then
    return false
  end
  local returning = 0
  for i = 2, #limit.returning, 2 do
    returning = returning + limit.returning[i]
  end
  return limit.pool + held + returning == UNITS and count == limit.instances
end

-- Up to then something may be out, or count: after a change by an operator nothing is granted
-- before. And whether all that is stored agrees.
local function last_use()
  local last = max(limit.now, end_of_doubt())
  local held, count = 0, 0
  local all = listed()
  for i = 1, #all, 2 do
    if byte(all[i]) == RECORD_BYTE then
      local units, gone = scanned(all[i + 1])
      units = unsealed(all[i], all[i + 1]) and units
      count = count + 1
      if not units then
        held = nil
        break
      end
      held = held + units
      if units ~= 0 then
        last = max(last, gone, limit.kept_until)
      end
    end
  end
  local ledger, counts = ledger_of(), counts_of(limit)
  for i = 1, #ledger, 2 do
    last = max(last, ledger[i] + counts)
  end
  for i = 1, #limit.returning, 2 do
    last = max(last, limit.returning[i])
  end
  return last, amounts_agree(held, count)
end
