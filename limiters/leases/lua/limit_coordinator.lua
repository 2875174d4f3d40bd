-- Serves the requests of one limit: _coordinator/coordinator.py in Lua, which has the reasons.

local unreadable -- whether what is stored of the limit cannot be read
local swallowed -- whether the server's clock is ahead of the time that is believed

-- Reads what is stored. What keeps the script from doing anything: an error reply; and the number
-- of the format of what is stored, if it is another one.
local function load(name, instance, server, version)
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  if tonumber(major) * 100 + tonumber(minor) < 602 then
    return redis.error_reply('UNSUPPORTED ' .. version)
  end
  limit_name = name
  local failure = occupied()
  if failure then
    return failure
  end
  local format
  limit, unreadable, format = load_limit(instance)
  if format then
    return redis.error_reply(string.format('FORMAT %.17g', format)), format
  end
  load_registry()
end

-- Whether a text can be a nonce: each request repeats that.
local function is_token(text)
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
  if registry and registry.server == server and registry.now ~= NEVER then
    return registry.now, registry.skew
  end
  return nil
end

local function store_time(server, now, skew)
  if is_mine(server) then
    limit.now, limit.skew = now, skew
  end
  if registry and registry.server == server then
    registry.now, registry.skew = now, skew
  end
end

-- The coordinator's time, by a clock that may step; nil if the request has to be sent again, since
-- nobody has confirmed so much time.
local function confirmed_time(request, server, clock)
  swallowed = false
  local past, skew = stored_time(server)
  if not past then
    return clock
  end
  local says = max(past, clock - skew)
  local now
  if is_mine(server) and nothing_is_out(past) then
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
  if not registry or registry.server ~= server then
    registry = new_registry(server, now)
  end
  local settled = registry.since + max(span_of(terms), DEFAULT_SPAN)
  return settled <= now and registry.names_until <= now and has_room(registry)
end

-- Opens the limit; whether it is new. It is uncertain if nothing vouches for what is stored.
local function open(terms, server, now, token)
  local vouched = vouched_for(terms, server, now)
  if limit and limit.deleted and limit.server == server and now >= limit.not_before then
    limit = nil
  end
  if limit then
    if limit.server ~= server then
      doubt(server, now, token, 'the server is another one')
    end
    return false
  end
  new_limit(terms, server, now, token)
  if registry and registry.server == server then
    limit.proven = registry.names_span -- whatever was lost of it, or cannot be read
  end
  if unreadable then
    doubt(server, now, token, UNREADABLE)
  elseif not vouched then
    doubt(server, now, token, 'the limit is new to this server')
  end
  return true
end

-- Who holds what.

-- Gives up instances that were silent for too long; takes back what was missing.
local function collect(token)
  local now = limit.now
  if now < limit.due then
    return
  end
  local all, gone, kept = listed(), {}, {}
  local held, count, freed, due = 0, 0, 0, nil
  for i = 1, #all, 2 do
    local name = all[i]
    if byte(name) == RECORD_BYTE and not records.removed[name] then
      local one = read_record(unsealed(name, all[i + 1]))
      if not one then
        held = nil
        break
      end
      local units, at = one.units, max(one.gone, limit.kept_until)
      held, count = held + units, count + 1
      if at <= now then
        gone[#gone + 1], freed = name, freed + units
      else
        due = min(due or at, at)
      end
    elseif not TEXTS[name] then
      records.removed[name] = true
    end
  end
  if not amounts_agree(held, count) then
    doubt(limit.server, now, token, DISAGREES)
    return
  end
  for i = 1, #limit.returning, 2 do
    local at, units = limit.returning[i], limit.returning[i + 1]
    if at <= now then
      freed = freed + units
    else
      kept[#kept + 1], kept[#kept + 2] = at, units
      due = min(due or at, at)
    end
  end
  limit.pool, limit.returning = limit.pool + freed, kept
  limit.due = due or now + span_of(limit)
  limit.instances = limit.instances - #gone
  for _, name in ipairs(gone) do
    records.removed[name] = true
  end
  if #gone > 0 then
    local queue = {}
    for _, one in ipairs(limit.queue) do
      if not records.removed[RECORD_PREFIX .. one.name] then
        queue[#queue + 1] = one
      end
    end
    limit.queue = queue
  end
end

-- If nobody could confirm the time since the last request, another server may have been in charge
-- meanwhile, and have renewed every lease: nobody is given up before those end.
local function notice_gap(token)
  if limit.now - limit.last > 2 * limit.interval or swallowed then
    collect(token)
    limit.kept_until = max(limit.kept_until, limit.now + span_of(limit))
  end
end

-- The record of the calling instance, if it has one.
local function own_record(token)
  local record, broken = load_own_record()
  if broken then
    doubt(limit.server, limit.now, token, DISAGREES)
  elseif record then
    record.was_granted = record.granted > 0
  end
  return record
end

local function claim(record, units)
  units = max(0, min(units, limit.pool))
  record.units = record.units + units
  limit.pool = limit.pool - units
end

local function release(record, request, uncertain)
  local released = min(request.released, record.units)
  if released == 0 then
    return
  end
  record.units = record.units - released
  limit.pool = limit.pool + released
  local now, spent = limit.now, {}
  for i = 1, #request.history, 2 do
    spent[i] = slice_end(now - max(0, request.history[i]), limit.period)
    spent[i + 1] = request.history[i + 1]
  end
  if not uncertain then -- else the stamps may be those of another server
    local latest = slice_end(now + MAX_PERMIT_MS, limit.period)
    for i = 1, #request.stamped, 2 do
      spent[#spent + 1] = min(request.stamped[i], latest)
      spent[#spent + 1] = request.stamped[i + 1]
    end
  end
  -- While uncertain nobody knows what it was told elsewhere; and nothing is granted.
  local most = uncertain and MAX_AMOUNT or released / UNITS * most_in_force()
  ledger_merge(ledger_of(), believed(spent, most, now - counts_of(limit)))
end

-- What an instance no longer states, and did not release: its spending counts.
local function return_later(units)
  local at = slice_end(limit.now + counts_of(limit), limit.period)
  local returning = limit.returning
  if returning[#returning - 1] == at then
    returning[#returning] = returning[#returning] + units
  else
    returning[#returning + 1], returning[#returning + 2] = at, units
  end
  limit.due = min(limit.due, at)
end

-- The record of the sender. What it states replaces what was known: upwards only while uncertain.
local function admit(record, request, uncertain)
  local evicted, was_granted = false, false
  if record and not uncertain and request.born ~= record.born then
    -- The last grant answered a delayed copy of a request, so the instance never received it.
    -- Nothing of it was spent; return it to the pool.
    local given = given_of(record)
    if given_is_lost(record) then
      local lost = min(record.granted, record.units)
      record.units = record.units - lost
      return_later(lost)
    end
    limit.pool = limit.pool + record.units
    ledger_merge(ledger_of(), given)
    evicted, was_granted, record = record.evicted, record.was_granted, nil
    limit.instances = limit.instances - 1
  end
  if not record then
    limit.next_id = limit.next_id + 1
    limit.instances = limit.instances + 1
    record = {
      born = limit.next_id, seen = limit.now, turn = turns_at(), evicted = evicted, units = 0,
      fair = 0, ask = 0, ask_since = 0, until_ = 0, share = 0, permit = 0, permit_at = 0, permit_cost = 0,
      permit_stayed = 0, permit_wave = 0, granted = 0, was_granted = was_granted,
      gone = limit.now + span_of(limit),
    }
    if uncertain and request.left > 0 then
      claim(record, request.units)
    end
    return record
  end
  if uncertain and request.left > 0 then
    claim(record, request.units - record.units)
  end
  release(record, request, uncertain)
  if uncertain or request.ended then
    local missing = record.units - request.units
    if missing > 0 then
      record.units = record.units - missing
      return_later(missing)
    end
  end
  return record
end

-- A cost as units of the limit, rounded up.
local function in_units(cost, worth)
  return max(0, min(UNITS, ceil(min(cost / worth, UNITS) - 1e-9)))
end

-- What the instance wants from now on.
local function hear(record, request)
  correct(record, request)
  local worth = worth_of_unit()
  local idle = request.leaving or record.evicted
  record.seq, record.given, record.granted = request.seq, {}, 0
  record.seen, record.interval = limit.now, request.interval
  record.weight, record.piece = request.weight, request.piece
  record.spent, record.reserved, people.label = request.spent, request.reserved, request.label
  record.need = idle and 0 or in_units(request.need, worth)
  local asks = request.ask > 0 and not idle and request.ask <= in_force()
  if asks and record.ask == 0 then
    record.ask_since = limit.now - request.waited
  end
  record.ask = asks and request.ask or 0
  record.gathers = asks and request.gathers
end

-- Shares.

-- Computes the shares and the queue again, unless they are recent enough. False if what is stored
-- did not agree, so that everything was forgotten.
local function refresh(record, token)
  local now = limit.now
  if now - limit.shares_at < floor(limit.instances / INSTANCES_PER_MS) then
    return true
  end
  -- By instance, in lists of numbers: a table for each would cost as much as all the rest.
  local needs, weights, wanted, batches, fairs = {}, {}, {}, {}, {}
  -- By instance that asks for a permit: the positions of its name and of the above, and its ask.
  local names, places, asks, turns, sinces, silents = {}, {}, {}, {}, {}, {}
  local held, count, needed, asked = 0, 0, 0, 0
  local all, removed, own = listed(), records.removed, records.own
  local length = #all
  all[length + 1], all[length + 2] = own, sealed(own, write_record(record))
  for i = 1, length + 2, 2 do
    local name, text = all[i], all[i + 1]
    local counts = byte(name) == RECORD_BYTE and name ~= own and not removed[name]
    if counts or i > length then
      local units, _, need, weight, ask, since, gathers, piece, turn, seen, interval = scanned(text)
      if not units then
        held = nil
        break
      end
      count = count + 1
      held, needed = held + units, needed + need
      needs[count], weights[count] = need, weight
      wanted[count] = need
      batches[count] = gathers ~= 0 and ask or piece
      if ask > 0 then
        asked = asked + 1
        names[asked], places[asked] = i, count
        asks[asked], turns[asked], sinces[asked] = ask, turn, since
        silents[asked] = seen + 2 * interval + SILENT_MS
      end
    end
  end
  if not amounts_agree(held, count) then
    doubt(limit.server, now, token, DISAGREES)
    return false
  end
  limit.shares_at, limit.needs = now, needed
  local fair_units, fair_weight = level_of(needs, weights, UNITS)
  if fair_weight ~= 0 and limit.fair_weight == 0 then
    limit.short_since = now
  end
  limit.fair_units, limit.fair_weight = fair_units, fair_weight
  local sum = 0
  for i = 1, count do
    local fair = needs[i]
    if fair_weight ~= 0 then
      fair = min(fair, floor(weights[i] * fair_units / fair_weight))
    end
    fairs[i] = fair
    if too_small(fair, needs[i], batches[i]) then
      wanted[i] = 0 -- as in permits: it lives on permits
    end
    sum = sum + wanted[i]
  end
  local queue, last = {}, nil
  for i = 1, asked do
    local place = places[i]
    local later = not too_small(fairs[place], needs[place], batches[place])
    -- Most of those who wait come behind the last one of a full queue by their turn alone.
    local comes_later = last and last.turn <= turns_at() and turns[i] > turns_at()
    if silents[i] >= now and not comes_later then
      local one = {
        later = later, turn = turns[i], since = sinces[i], ask = asks[i], silent = silents[i],
        name = sub(all[names[i]], #RECORD_PREFIX + 1), fair = entitlement(weights[place]),
      }
      local at = #queue + 1
      for i = #queue, 1, -1 do
        if not queued_before(one, queue[i]) then
          break
        end
        queue[i + 1], at = queue[i], i
      end
      queue[at] = one
      queue[QUEUE_LENGTH + 1] = nil
      last = queue[QUEUE_LENGTH]
    end
  end
  limit.queue = queue
  limit.level_units, limit.level_weight = level_of(wanted, weights, UNITS - kept_aside())
  -- Nobody is short: half of what is left is held by those who work, so that they can do more
  -- without asking first; the other half serves newcomers at once.
  local left = UNITS - limit.needs
  limit.spare = left > 0 and sum > 0 and left / 2 / sum or 0
  return true
end

-- How much an instance may hold as a share.
local function entitled(record)
  local want = wants(record)
  if limit.spare > 0 then
    return min(UNITS, want + floor(want * limit.spare))
  end
  local share = share_at(limit.level_units, limit.level_weight, want, record.weight)
  local worth = share * worth_of_unit()
  if record.piece > 0 and share < want and worth < WHOLE_BATCHES * record.piece then
    local batches = floor(worth / record.piece + 1e-9)
    return min(UNITS, ceil(batches * record.piece / worth_of_unit()))
  end
  return share
end

-- Whether a share that is about to be granted has room for what an instance asks for.
local function pays_at_once(record, right)
  local units = min(right - record.units, limit.pool - kept_aside())
  if units <= 0 then
    return false
  end
  local spent = ledger_total(ledger_of(), limit.now - counts_of(limit))
  return units / limit.pool * (limit.pool * worth_of_unit() - spent) >= record.ask
end

local function grant(record, right)
  local units = min(right - record.units, limit.pool - kept_aside())
  if units <= 0 then
    return
  end
  local part = units / limit.pool
  ledger_total(ledger_of(), limit.now - counts_of(limit))
  record.given, limit.ledger = ledger_split(limit.ledger, part)
  record.granted = #record.given > 0 and units or 0
  record.is_granted = true
  handed_over(part)
  limit.pool = limit.pool - units
  record.units = record.units + units
end

-- How much of what it holds an instance may keep. Each hand-over carries history, so nothing moves
-- while nobody is short.
local function kept(record, right, uncertain)
  if uncertain > 0 then
    return max(right, record.units)
  end
  if limit.spare > 0 and right > 0 and limit.pool * FREE_SHARE >= UNITS then
    return max(right, record.units)
  end
  return right
end

-- The answer.

local function terms_of(reply)
  reply.capacity, reply.factor, reply.period, reply.lease =
    limit.capacity, limit.factor, limit.period, limit.lease
  reply.version, reply.served = limit.version, limit.served
  return reply
end

local function answer(request, record, again, created)
  local right, uncertain = entitled(record), remaining()
  local back = -1
  if uncertain == 0 and not again and not request.leaving then
    if record.ask ~= 0 and not pays_at_once(record, right) then
      back = grant_permit(request.instance, record, request)
    end
    grant(record, right)
    if right * worth_of_unit() >= request.ask then
      back = -1 -- its share will pay for it
    end
    if record.units == 0 and right > 0 then
      back = max(1, floor(record.interval / 4))
    end
  end
  if not request.leaving and not again then
    local late = 2 * max(limit.interval, record.interval)
    record.until_ = limit.now + limit.lease
    record.gone = record.until_ + counts_of(limit) + late
    limit.due = min(limit.due, record.gone)
  end
  record.share = fair_share(record)
  local ahead = 0
  for i, one in ipairs(line()) do
    if one.name == request.instance then
      ahead = i - 1
      break
    end
  end
  local capacity = in_force()
  return terms_of({
    kind = 'answer', nonce = uncertain > 0 and limit.nonce or '', created = created,
    in_force = capacity, rising = capacity < limit.capacity and limit.ramp_rate or 0,
    certain = uncertain == 0, uncertain = uncertain, cause = uncertain > 0 and limit.cause or '',
    skew = limit.skew, born = record.born, units = record.units, given = packed(given_of(record)),
    keep = kept(record, right, uncertain), share = record.share, short = right > record.units,
    permit = record.permit, permit_cost = record.permit_cost, back = back, waiting = #limit.queue,
    ahead = ahead, evicted = record.evicted, counted = record.counted,
    instances = limit.instances, needs = limit.needs, free = limit.pool,
  })
end

local function challenge()
  return { kind = 'challenge', nonce = limit.nonce }
end

-- Challenges a request that proves too little; nil if it does not.
local function challenged(record, request, again, token)
  local proves = request.nonce == limit.nonce
  local news = not again and is_news(request)
  if remaining() > 0 then
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
  local unknown = request.left > 0 and request.units > (record and record.units or 0)
  if news or (unknown and not again) then
    if not proves then
      return challenge()
    end
    doubt(limit.server, limit.now, token, 'another server was in charge')
  end
  return nil
end

local function write_ahead()
  if not registry then
    return
  end
  local span = span_of(limit)
  if span > registry.names_span or remaining() == 0 then
    registry.names_span = span
  end
  if registry.names_until - limit.now < span then
    registry.names_until = limit.now + REGISTRY_SPANS * span
  end
end

-- Serves a request: the reply, and the record of the sender, if it has one.
local function serve(request, server, now)
  local token = string.format('%.0f:', now) .. request.instance
    .. string.format(':%.0f', request.seq)
  local created = open(request, server, now, token)
  limit.now = max(limit.now, now)
  notice_gap(token)
  collect(token)
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
  local uncertain = remaining() > 0
  learn_terms(request, uncertain)
  if not agrees_with(request) then
    return terms_of({ kind = 'refused', nonce = uncertain and limit.nonce or '' }), record
  end
  if again then
    if given_is_lost(record) then
      return challenge(), record
    end
    if not refresh(record, token) then
      return challenge()
    end
    return answer(request, record, true, created), record
  end
  load_people()
  local known = record ~= nil
  record = admit(record, request, uncertain)
  record.counted = known and record.born == request.born
  if record.counted then
    add_totals(request.totals)
  end
  local elapsed = limit.now - record.seen
  hear(record, request)
  limit.deleted = false
  local passed = limit.now - limit.last
  limit.last, limit.interval = limit.now, max(limit.interval, request.interval)
  if not refresh(record, token) then
    people.label = nil
    return challenge()
  end
  follow_fair_share(record)
  enqueue(request.instance, record)
  keep_pace(passed)
  local reply = answer(request, record, false, created)
  spent_by_share(record, request, elapsed)
  write_ahead()
  return reply, record
end

-- What an operator does.

local function operator_starts_over(now, token, cause)
  local last, agree = last_use()
  if not agree then -- then its records do not say what may be out
    limit.since = limit.now
    last = max(last, end_of_doubt())
  end
  limit.not_before = last
  limit.proven = max(limit.proven, span_of(limit))
  if registry then
    -- Of what could not be read, nobody knows how long it may be out.
    local known = unreadable and registry.names_until or NEVER
    registry.names_until = max(limit.not_before, known)
  end
  start_over(now, token, cause)
end
