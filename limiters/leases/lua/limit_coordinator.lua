-- Serves the requests of one limit: _coordinator/coordinator.py in Lua, which has the reasons.

local records, people = state.records, state.people
local unreadable -- whether what is stored of the limit cannot be read
local swallowed -- whether the server's clock is ahead of the time that is believed

-- Reads what is stored of the limit called `name`, and of one instance. What keeps the script from doing anything: an error reply; and the number
-- of the format of what is stored, if it is another one.
function coordinator.load(name, instance, server, version)
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  if tonumber(major) * 100 + tonumber(minor) < 602 then
    return redis.error_reply('UNSUPPORTED ' .. version)
  end
  local failure = occupied()
  if failure then
    return failure
  end
  local format
  limit, unreadable, format = state.load_limit(name, instance)
  if format then
    return redis.error_reply(string.format('FORMAT %.17g', format)), format
  end
  state.load_registry()
end

-- Whether a text can be a nonce: each request repeats that.
function coordinator.is_token(text)
  return text and #text > 0 and #text <= MAX_TEXT
end

-- Confirmed time: how far the server's clock is believed.

local function is_mine(server)
  return limit ~= nil and limit.server == server
end

local function stored_time(server)
  if is_mine(server) then
    return limit.now, limit.skew
  end
  if process and process.server == server and process.now ~= NEVER then
    return process.now, process.skew
  end
  return nil
end

function coordinator.store_time(server, now, skew)
  if is_mine(server) then
    limit.now, limit.skew = now, skew
  end
  if process and process.server == server then
    process.now, process.skew = now, skew
  end
end

-- The coordinator's time, by a clock that may step; nil if the request has to be sent again, since
-- nobody has confirmed so much time.
function coordinator.confirmed_time(request, server, clock)
  swallowed = false
  local past, skew = stored_time(server)
  if not past then
    return clock
  end
  local says = max(past, clock - skew)
  local now
  if is_mine(server) and certainty.nothing_is_out(past) then
    now = says
  elseif request and request.confirmed >= 0 and request.server == server then
    if says > request.confirmed and request.tries < MAX_TRIES then
      return nil
    end
    now = says <= request.confirmed and says or past
  else
    local interval = is_mine(server) and limit.interval or request and request.interval or 0
    now = says <= past + 2 * interval and says or past
  end
  swallowed = now < says
  return now
end

-- Whether it may grant, and who may claim.

-- Whether the registry proves that nothing of a limit that is not there can be out.
local function vouched_for(terms, server, now)
  if not REGISTRY then
    return false
  end
  if not process or process.server ~= server then
    process = registry.new(server, now)
  end
  local settled = process.since + max(state.span_of(terms), DEFAULT_SPAN)
  return settled <= now and process.names_until <= now and registry.has_room(process)
end

-- Opens the limit; whether it is new. It is uncertain if nothing vouches for what is stored.
function coordinator.open(terms, server, now, token)
  local vouched = vouched_for(terms, server, now)
  if limit and limit.deleted and limit.server == server and now >= limit.not_before then
    limit = nil
  end
  if limit then
    if limit.server ~= server then
      certainty.doubt(server, now, token, 'the server is another one')
    end
    return false
  end
  certainty.new_limit(terms, server, now, token)
  if process and process.server == server then
    limit.proven = process.names_span -- whatever was lost of it, or cannot be read
  end
  if unreadable then
    certainty.doubt(server, now, token, certainty.UNREADABLE)
  elseif not vouched then
    certainty.doubt(server, now, token, 'the limit is new to this server')
  end
  return true
end

-- Whether what is stored cannot be read.
function coordinator.is_unreadable()
  return unreadable
end

-- Who holds what.

-- Adds to `freed` what comes back by now of what a silent instance holds, and takes that from it.
local function give_up(one, freed)
  for b, bound in ipairs(limit.bounds) do
    if one.held[b] ~= 0 and certainty.returns_at(one.gone, bound) <= limit.now then
      freed[b], one.held[b] = freed[b] + one.held[b], 0
    end
  end
end

-- What was missing and comes back by now, of one bound; the others stay. When the first of these does.
local function take_back(bound)
  local freed, kept, due = 0, {}, nil
  for i = 1, #bound.back, 2 do
    local at, units = bound.back[i], bound.back[i + 1]
    if at <= limit.now then
      freed = freed + units
    else
      kept[#kept + 1], kept[#kept + 2] = at, units
      due = min(due or at, at)
    end
  end
  bound.back = kept
  return freed, due
end

-- Some records at a glance, in front of those that were looked at before, and the place of the first
-- one; nil if one cannot be read, or if these are all and do not sum to the limit.
local function records_to_see()
  local seen, sums = {}, certainty.zeros()
  local most = min(MOST_VISITS, limit.instances - limit.collected)
  if most < 0 then
    return nil
  end
  local place = limit.instances - limit.collected - most
  for _ = 1, MOST_VISITS do
    if #seen >= most then
      break
    end
    local found, texts = state.some_records(place + #seen, most - #seen)
    for i, name in ipairs(found) do
      local field = RECORD_PREFIX .. name
      local text = records.changed[field] or texts[i]
      local gone, held = glance_record(text, #limit.bounds)
      -- No lease ends so late: if that is damage, nothing else would show it.
      if not gone or gone > limit.now + 2 * limit.lease and not unsealed(field, text) then
        return nil
      end
      seen[#seen + 1] = { field = field, text = text, gone = gone, held = held }
      for b = 1, #held do
        sums[b] = sums[b] + held[b]
      end
    end
    if #found == 0 then
      return nil
    end
  end
  if most == limit.instances and not certainty.amounts_agree(sums, most) then
    return nil
  end
  return seen, place
end

-- Gives up what silent instances hold; takes back what was missing. When something is due, requests look
-- through some of the instances each, the last ones first, until all were seen: so the names behind
-- those that are left out, which take other places, are few. At how many.
local function collect(token)
  if limit.now < limit.due then
    return 0
  end
  if limit.collected == 0 then
    limit.next_due = LATEST
  end
  local seen, first = records_to_see()
  if not seen then
    certainty.doubt(limit.server, limit.now, token, certainty.DISAGREES)
    return 0
  end
  local next_due, freed, left_out, visited = limit.next_due, certainty.zeros(), {}, limit.visited
  for b, bound in ipairs(limit.bounds) do
    local units, at = take_back(bound)
    freed[b], next_due = units, min(next_due, at or next_due)
  end
  for i, one in ipairs(seen) do
    local due, gone = certainty.due_and_gone(one.gone, one.held)
    if due <= limit.now then
      local packed = unsealed(one.field, one.text)
      if not packed then
        certainty.doubt(limit.server, limit.now, token, certainty.DISAGREES)
        return 0
      end
      give_up(one, freed)
      if gone > limit.now then
        due = certainty.due_and_gone(one.gone, one.held)
        local text = sealed(one.field, with_units(packed, one.held))
        records.changed[one.field] = text
        if one.field == records.own then
          records.own_text = text
        end
      end
    end
    if gone > limit.now then
      next_due, limit.collected = min(next_due, due), limit.collected + 1
    else
      local place = first + i - 1
      records.removed[one.field], left_out[#left_out + 1] = true, place
      limit.visited = limit.visited - (place < visited and 1 or 0)
    end
  end
  limit.instances = limit.instances - #left_out
  for b, bound in ipairs(limit.bounds) do
    bound.pool = bound.pool + freed[b]
  end
  limit.next_due = next_due
  if limit.collected == limit.instances then
    limit.due = next_due < LATEST and next_due or limit.now + state.span_of(limit)
    limit.collected = 0
  end
  if #left_out > 0 then
    state.leave_out(left_out)
    local queue = {}
    for _, one in ipairs(limit.queue) do
      if not records.removed[RECORD_PREFIX .. one.name] then
        queue[#queue + 1] = one
      end
    end
    limit.queue = queue
  end
  return #seen
end

-- If no request has confirmed the time since the last one, another server may have been in charge:
-- instances whose leases it may have renewed are not given up before those end. At how many instances
-- it has looked.
local function notice_gap(token)
  local seen = 0
  if limit.now - limit.last > 2 * limit.interval or swallowed then
    seen = collect(token)
    certainty.note_gap()
  end
  return seen
end

-- The record of the calling instance, if it has one.
local function own_record(token)
  local record, broken = state.load_own_record()
  if broken then
    certainty.doubt(limit.server, limit.now, token, certainty.DISAGREES)
  elseif record then
    record.was_granted = false
    for _, one in ipairs(record.bounds) do
      record.was_granted = record.was_granted or one.granted > 0
    end
  end
  return record
end

local function claim(record, request)
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    local units = max(0, min(request.bounds[b].units - one.units, bound.pool))
    one.units = one.units + units
    bound.pool = bound.pool - units
  end
end

local function release(bound, one, said, uncertain)
  local released = min(said.released, one.units)
  if released == 0 then
    return
  end
  one.units = one.units - released
  bound.pool = bound.pool + released
  if bound.slots then -- what still runs was not released
    return
  end
  local now, spent = limit.now, {}
  for i = 1, #said.history, 2 do
    spent[i] = ledger.slice_end(now - max(0, said.history[i]), bound.period)
    spent[i + 1] = said.history[i + 1]
  end
  if not uncertain then -- else the stamps may be those of another server
    local latest = ledger.slice_end(now + MAX_PERMIT_MS + state.running_of(bound), bound.period)
    for i = 1, #said.stamped, 2 do
      spent[#spent + 1] = min(said.stamped[i], latest)
      spent[#spent + 1] = said.stamped[i + 1]
    end
  end
  -- While uncertain nobody knows what it was told elsewhere; and nothing is granted.
  local most = uncertain and MAX_AMOUNT or released / UNITS * state.most_in_force(bound)
  local since = now - state.counts_of(bound)
  ledger.merge(state.ledger_of(bound), ledger.believed(spent, most, since))
end

-- What an instance no longer states, and did not release: its charges there count.
local function return_later(bound, units)
  local at = ledger.slice_end(limit.now + bound.lasting, bound.period)
  local back = bound.back
  if back[#back - 1] == at then
    back[#back] = back[#back] + units
  else
    back[#back + 1], back[#back + 2] = at, units
  end
  state.falls_due(at)
end

-- What an instance that is new holds of a bound.
local function nothing_held()
  return {
    units = 0, need = 0, ask = 0, piece = 0, permit_at = 0, permit_cost = 0, permit_stayed = 0,
    permit_wave = 0, served_at = NEVER, due_at = NEVER, share = 0, fair = 0, granted = 0,
    refundable = 0, refundable_before = 0,
  }
end

-- Takes back all of an instance that never received its last grant: that answered a delayed copy of a
-- request. Nothing of it was spent.
local function take_all_back(record)
  for b, bound in ipairs(limit.bounds) do
    local one, given = record.bounds[b], state.given_of(record, b)
    if state.bound_is_lost(record, b) then
      local lost = min(one.granted, one.units)
      one.units = one.units - lost
      return_later(bound, lost)
    end
    bound.pool = bound.pool + one.units
    ledger.merge(state.ledger_of(bound), given)
  end
  limit.instances = limit.instances - 1
end

-- The record of the sender. What it states replaces what was known: upwards only while uncertain.
local function admit(record, request, uncertain)
  local evicted, was_granted, is_known = false, false, record ~= nil
  if record and not uncertain and request.born ~= record.born then
    take_all_back(record)
    evicted, was_granted, record = record.evicted, record.was_granted, nil
  end
  if not record then
    limit.next_id = limit.next_id + 1
    limit.arrivals = limit.arrivals + 1
    limit.instances = limit.instances + 1
    if not is_known then
      state.add_to_order(limit.instances - 1)
    end
    record = {
      born = limit.next_id, arrival = limit.arrivals, seen = limit.now, turn = permits.turns_at(),
      evicted = evicted, ask_since = 0, until_ = 0, permit = 0, was_granted = was_granted,
      gone = limit.now + limit.lease, bounds = {},
    }
    for b = 1, #limit.bounds do
      record.bounds[b] = nothing_held()
    end
    if uncertain and request.left > 0 then
      claim(record, request)
    end
    return record
  end
  if uncertain and request.left > 0 then
    claim(record, request)
  end
  for b, bound in ipairs(limit.bounds) do
    local one, said = record.bounds[b], request.bounds[b]
    release(bound, one, said, uncertain)
    local missing = one.units - said.units
    if (uncertain or request.ended) and missing > 0 then
      one.units = one.units - missing
      return_later(bound, missing)
    end
  end
  return record
end

-- A cost as units of a bound, rounded up.
local function in_units(cost, worth, whole)
  return max(0, min(whole, ceil(min(cost / worth, whole) - 1e-9)))
end

-- Whether a request asks for a permit that there can be.
local function asks_for_permit(request)
  local asks = false
  for b, bound in ipairs(limit.bounds) do
    local ask = request.bounds[b].ask
    if not bound.slots then
      asks = asks or ask > 0
      if ask < 0 or ask > state.in_force(bound) then
        return false
      end
    end
  end
  return asks
end

-- What the instance wants from now on.
local function hear(record, request, uncertain)
  permits.correct(record, request)
  settlement.settle(record, request, uncertain)
  local idle = request.leaving or record.evicted
  local asks = not idle and asks_for_permit(request)
  local _, asked = permits.ask_of(record)
  if asks and not asked then
    record.ask_since = limit.now - request.waited
  end
  record.gathers = asks and request.gathers
  record.seq = request.seq
  record.seen, record.interval = limit.now, request.interval
  record.weight, people.label = request.weight, request.label
  for b, bound in ipairs(limit.bounds) do
    local one, said = record.bounds[b], request.bounds[b]
    one.given, one.granted = {}, 0
    one.spent, one.reserved = said.spent, said.reserved
    one.need = idle and 0 or in_units(said.need, bound.worth, bound.whole)
    one.piece = said.piece
    one.ask = asks and not bound.slots and said.ask or 0
  end
  record.demand = nil
end

-- Shares.

-- Goes on with the division, after a look at `seen` instances. False if what is stored did not agree, so
-- that everything was forgotten.
local function divide(record, seen, token)
  if division.go_on(record, seen) then
    return true
  end
  certainty.doubt(limit.server, limit.now, token, certainty.DISAGREES)
  return false
end

-- Whether a share that is about to be granted has room for what an instance asks for, in all bounds
-- in which what it holds has none.
local function pays_at_once(record, request, rights, asides)
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    if one.ask ~= 0 and request.bounds[b].lacks then
      local units = min(rights[b] - one.units, bound.pool - asides[b])
      if units <= 0 then
        return false
      end
      local spent = ledger.total(state.ledger_of(bound), limit.now - state.counts_of(bound))
      if units / bound.pool * (bound.pool * bound.worth - spent) < one.ask then
        return false
      end
    end
  end
  return true
end

local function grant(record, rights, of_slots)
  local asides = permits.kept_aside()
  for b, bound in ipairs(limit.bounds) do
    local one = record.bounds[b]
    local units = bound.slots and slots.granted(bound, one, of_slots[b], rights[b])
      or min(rights[b] - one.units, bound.pool - asides[b])
    if units > 0 then
      if not bound.slots then
        local part, entries = units / bound.pool, state.ledger_of(bound)
        ledger.total(entries, limit.now - state.counts_of(bound))
        one.given, bound.entries = ledger.split(entries, part)
        one.granted = #one.given > 0 and units or 0
        record.is_granted = true
        permits.handed_over(bound, part)
      end
      bound.pool = bound.pool - units
      one.units = one.units + units
    end
    if bound.slots then
      slots.note_turn(bound, one, of_slots[b])
    end
  end
end

-- The answer.

-- The terms, as replies have them.
local function terms_of(reply, parts)
  reply.factor, reply.lease, reply.layout = limit.factor, limit.lease, limit.layout
  reply.version, reply.served = limit.version, limit.served
  reply.bounds = {}
  for b, bound in ipairs(limit.bounds) do
    local part = parts and parts[b] or {}
    part.capacity, part.period, part.lasting = bound.capacity, bound.period, bound.lasting
    part.slots = bound.slots
    reply.bounds[b] = part
  end
  return reply
end

-- What the answer says of each bound; and whether the instance is entitled to more than it holds.
local function parts_of(record, rights, keeps)
  local parts, short = {}, false
  for b, bound in ipairs(limit.bounds) do
    local one, in_force = record.bounds[b], state.in_force(bound)
    short = short or rights[b] > one.units
    parts[b] = {
      in_force = in_force, rising = in_force < bound.capacity and bound.ramp_rate or 0,
      units = one.units, given = ledger.packed(state.given_of(record, b)),
      keep = keeps[b],
      share = one.share, permit_cost = one.permit_cost, needs = bound.needs, free = bound.pool,
      permit_at = one.permit_at, permit_stayed = one.permit_stayed, permit_wave = one.permit_wave,
    }
  end
  return parts, short
end

-- Grants what there is to grant. When to ask again; -1 for never.
local function serve_wants(request, record, rights, of_slots)
  local back = -1
  local _, asks = permits.ask_of(record)
  if asks and not pays_at_once(record, request, rights, permits.kept_aside()) then
    back = permits.grant(request.instance, record, request)
  end
  grant(record, rights, of_slots)
  local pays, empty = true, false
  for b, bound in ipairs(limit.bounds) do
    local enough = bound.slots or rights[b] * bound.worth >= request.bounds[b].ask
    pays = pays and enough
    local one = record.bounds[b]
    empty = empty
      or one.units == 0 and rights[b] > 0 and division.comes_soon(bound, one, of_slots[b])
  end
  if pays then
    back = -1 -- its share will pay for it
  end
  if empty then
    back = max(1, floor(record.interval / 4))
  end
  return back
end

local function answer(request, record, elapsed, again, created)
  local rights, limited, of_slots = division.rights_of(record)
  local uncertain, back, before = certainty.remaining(), -1, {}
  for b, one in ipairs(record.bounds) do
    before[b] = one.units
  end
  if uncertain == 0 and not again and not request.leaving then
    back = serve_wants(request, record, rights, of_slots)
  end
  if not request.leaving and not again then
    record.until_ = limit.now + limit.lease
    record.gone = record.until_ + 2 * max(limit.interval, record.interval)
    local held = {}
    for b, one in ipairs(record.bounds) do
      held[b] = one.units
    end
    state.falls_due((certainty.due_and_gone(record.gone, held)))
  end
  local keeps = {}
  for b, bound in ipairs(limit.bounds) do
    local one, right = record.bounds[b], of_slots[b]
    keeps[b] = division.kept(bound, one, rights[b], right, before[b], limited, uncertain > 0)
    if right then
      slots.note_use(bound, one, right, before[b], keeps[b], elapsed)
    end
  end
  for b, part in ipairs((permits.fair_share(record))) do
    record.bounds[b].share = floor(part)
  end
  local line, _, waits = permits.line(), permits.ask_of(record)
  local ahead = waits and #line or 0
  for i, one in ipairs(line) do
    if one.name == request.instance then
      ahead = i - 1
      break
    end
  end
  local parts, short = parts_of(record, rights, keeps)
  return terms_of({
    kind = 'answer', nonce = uncertain > 0 and limit.nonce or '', created = created,
    certain = uncertain == 0, uncertain = uncertain, cause = uncertain > 0 and limit.cause or '',
    skew = limit.skew, born = record.born, short = short, permit = record.permit, back = back,
    waiting = #limit.queue, ahead = ahead, evicted = record.evicted, counted = record.counted,
    instances = limit.instances, heard = record.seen,
  }, parts)
end

local function challenge()
  return { kind = 'challenge', nonce = limit.nonce }
end

-- Whether an instance holds more of some bound than is known of it. Of other bounds nothing is known.
local function holds_more(request, record)
  if #request.bounds ~= (record and #record.bounds or #request.bounds) then
    return true
  end
  for b, said in ipairs(request.bounds) do
    if said.units > (record and record.bounds[b].units or 0) then
      return true
    end
  end
  return false
end

-- Challenges a request that proves too little; nil if it does not.
local function challenged(record, request, again, token)
  local proves = request.nonce == limit.nonce
  local news = not again and certainty.is_news(request)
  if certainty.remaining() > 0 then
    if not proves then
      return challenge()
    end
    if news then
      limit.since = limit.now
    end
    return nil
  end
  if limit.doubted then -- what was proven before proves nothing from now on
    limit.doubted, limit.nonce = false, token
  end
  local unknown = request.left > 0 and holds_more(request, record)
  if news or (unknown and not again) then
    if not proves then
      return challenge()
    end
    certainty.doubt(limit.server, limit.now, token, 'another server was in charge')
  end
  return nil
end

local function write_ahead()
  if not process then
    return
  end
  local span = state.span_of(limit)
  if span > process.names_span or certainty.remaining() == 0 then
    process.names_span = span
  end
  if process.names_until - limit.now < span then
    process.names_until = limit.now + REGISTRY_SPANS * span
  end
end

-- Serves a request: the reply, and the record of the sender, if it has one.
function coordinator.serve(request, server, now)
  local token = string.format('%.0f:', now) .. request.instance
    .. string.format(':%.0f', request.seq)
  local created = coordinator.open(request, server, now, token)
  limit.now = max(limit.now, now)
  state.resize_all()
  local seen = notice_gap(token) + collect(token)
  local record = own_record(token)
  if record and request.seq < record.seq then
    return { kind = 'stale' }, record
  end
  local again = record ~= nil and request.seq == record.seq
  local sent_back = challenged(record, request, again, token)
  if sent_back then
    return sent_back, not records.forgotten and record or nil
  end
  if records.forgotten then -- all are forgotten after news
    record = nil
  end
  if not record and limit.instances >= MAX_INSTANCES then
    return { kind = 'full' }
  end
  local uncertain = certainty.remaining() > 0
  certainty.learn_terms(request, uncertain)
  if records.forgotten then -- all are forgotten with other bounds
    record = nil
  end
  if not certainty.agrees_with(request) then
    return terms_of({ kind = 'refused', nonce = uncertain and limit.nonce or '' }), record
  end
  if again and record then
    if state.given_is_lost(record) then
      return challenge(), record
    end
    if not divide(record, seen, token) then
      return challenge()
    end
    return answer(request, record, 0, true, created), record
  end
  state.load_people()
  local known = record ~= nil
  record = admit(record, request, uncertain)
  record.counted = known and record.born == request.born
  if record.counted then
    state.add_totals(request.totals)
  end
  local elapsed = limit.now - record.seen
  hear(record, request, uncertain)
  limit.deleted = false
  local passed = limit.now - limit.last
  limit.last, limit.interval = limit.now, max(limit.interval, request.interval)
  if not divide(record, seen, token) then
    people.label = nil
    return challenge()
  end
  permits.follow_fair_share(record)
  permits.enqueue(request.instance, record)
  permits.keep_pace(passed)
  local reply = answer(request, record, elapsed, false, created)
  permits.spent_by_share(record, request, elapsed)
  write_ahead()
  return reply, record
end

-- What an operator does.

-- Whether all that is stored agrees.
function coordinator.agrees()
  local _, agree = certainty.last_use()
  return agree
end

function coordinator.operator_starts_over(now, token, cause)
  local last, agree = certainty.last_use()
  if not agree then -- then its records do not say what may be out
    limit.since = limit.now
    last = max(last, certainty.end_of_doubt())
  end
  limit.not_before = last
  limit.proven = max(limit.proven, state.span_of(limit))
  if process then
    -- Of what could not be read, nobody knows how long it may be out.
    local known = unreadable and process.names_until or NEVER
    process.names_until = max(limit.not_before, known)
  end
  certainty.start_over(now, token, cause)
end
