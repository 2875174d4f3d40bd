-- A family that is set free or removed, in portions. It comes after held.lua.
--
-- An agenda is what one call has set in motion: it works off its claims, the first one first, and
-- each may bring further ones, those of its children. To claim an entity is to register it, or to
-- remove it. What it held is told afterwards, and stays stored until the last portion is told. So
-- a gate hands out what was set free when it has all of it. If it is gone before that, another
-- gate with a message or a registration takes its agenda over, and is told all of it, from the
-- beginning.
--   claims      sorted set, by text: "<agenda><number><life><length of entity>:<entity><record>"
--   agendas     hash: agenda -> kind, gate, number of the claim it has come to, the last message
--               of that claim that was told, whether another gate has told of it before
--   unfinished  sorted set: agenda -> when it was last continued
--   garbage     sorted set: agendas that are done and lives that have ended, whose claims and
--               messages are to be deleted; a few with each call

local ABANDONED_MS = 10000
local REMEMBERED_MS = 3600000
-- How many messages and how many children are taken at once.
local MESSAGES_AT_ONCE, CHILDREN_AT_ONCE = 50, 10
-- How many texts one script deletes of the garbage, besides what else it does.
local COLLECTED = 200

local agenda

local function begin(kind)
  agenda = agenda or { id = next_number(), kind = kind, at = '', told = '', again = 0 }
end

-- Whose links are in the reply: as they are when all that this script changes is changed.
local told = {}

local function tell(entity, record)
  put('release', entity, record)
  told[#told + 1] = entity
end

local function put_claim(entity, life, record)
  redis.call('ZADD', CLAIMS, 0,
    table.concat({ agenda.id, next_number(), life, prefix(entity), record }))
end

local function parts_of(claim)
  local life, rest = string.sub(claim, 31, 45), string.sub(claim, 46)
  local size, from = string.match(rest, '^(%d+):()')
  local ends = from + tonumber(size)
  return life, string.sub(rest, from, ends - 1), string.sub(rest, ends)
end

local function next_claim()
  agenda.at, agenda.told = agenda.at .. '\255', ''
end

local function register_now(entity, record)
  budget = budget - 10
  local life, registrations, metadata, telemetry = end_life(entity)
  local before, parent = registered(entity), parent_of(record)
  report(before and 'updated' or 'registered', entity, 1, 0, 0)
  if registrations + metadata + telemetry > 0 then
    report('released', entity, registrations, metadata, telemetry)
  end
  if before and parent_of(before) ~= parent then
    changed(entity)
    if parent_of(before) then
      redis.call('ZREM', CHILDREN, prefix(parent_of(before)) .. entity)
    end
  end
  redis.call('HSET', ENTITIES, entity, record)
  if parent then
    redis.call('ZADD', CHILDREN, 0, prefix(parent) .. entity)
  end
  emit(entity)
  put_claim(entity, life, record)
end

-- Registers `entity`, and then every held descendant: parents before children.
local function admit(entity, record)
  begin('free')
  register_now(entity, record)
end

local function remove_now(entity, record)
  budget = budget - 5
  local parent = parent_of(record)
  if parent then
    redis.call('ZREM', CHILDREN, prefix(parent) .. entity)
  end
  redis.call('HDEL', ENTITIES, entity)
  redis.call('ZREM', EMITTED, entity)
  changed(entity)
  report('deregistered', entity, 1, 0, 0)
  put_claim(entity, NO_LIFE, '')
end

-- Removes `entity`, and then every registered descendant: parents before children.
local function remove(entity)
  begin('remove')
  remove_now(entity, registered(entity))
end

-- Whether all messages of a claim are told.
local function tell_messages(life)
  if life == NO_LIFE then
    return true
  end
  local after = agenda.told == life and life or agenda.told
  local texts = redis.call('ZRANGEBYLEX', ORDER, '(' .. after, '(' .. life .. '\255',
    'LIMIT', 0, MESSAGES_AT_ONCE)
  if #texts == 0 then
    return true
  end
  local bodies = {}
  for _, body in ipairs(redis.call('HMGET', MESSAGES, unpack(texts))) do
    if body then
      bodies[#bodies + 1] = body
      budget = budget - 1 - math.floor(#body / 4096)
    end
  end
  put('messages', #bodies, unpack(bodies))
  agenda.told = texts[#texts]
  return #texts < MESSAGES_AT_ONCE
end

local function free_children(entity)
  if not rooted(entity) then
    return true
  end
  local start = prefix(entity)
  local members = beginning(WAITING, start, CHILDREN_AT_ONCE)
  for _, member in ipairs(members) do
    local child = string.sub(member, #start + 16)
    local record = not drop_if_old(child) and held_registration(child)
    if record then
      register_now(child, record)
    end
    redis.call('ZREM', WAITING, member)
  end
  return #members < CHILDREN_AT_ONCE
end

local function remove_children(entity)
  -- Who is registered again has a place for its children.
  if registered(entity) then
    return true
  end
  local start = prefix(entity)
  local members = beginning(CHILDREN, start, CHILDREN_AT_ONCE)
  for _, member in ipairs(members) do
    local child = string.sub(member, #start + 1)
    local record = registered(child)
    if record and parent_of(record) == entity then
      remove_now(child, record)
    end
    redis.call('ZREM', CHILDREN, member)
  end
  return #members < CHILDREN_AT_ONCE
end

local steps = {}

function steps.free(claim)
  local life, entity, record = parts_of(claim)
  if agenda.told == '' then
    if agenda.again == 1 and registered(entity) == record then
      emit(entity)
    end
    tell(entity, record)
    agenda.told = life
  end
  if not tell_messages(life) then
    return
  end
  if agenda.message then
    put('messages', 1, agenda.message)
    agenda.message = nil
  end
  if free_children(entity) then
    next_claim()
  end
end

function steps.remove(claim)
  local _, entity = parts_of(claim)
  if remove_children(entity) then
    next_claim()
  end
end

local function continue(id)
  local stored = redis.call('HGET', AGENDAS, id)
  if not stored then
    return nil
  end
  local kind, owner, at, last, again = unpack(cmsgpack.unpack(stored))
  agenda = { id = id, kind = kind, at = at, told = last, again = again }
  return owner
end

-- Makes the agenda of a gate that is gone one of this gate.
local function take_over()
  agenda = nil
  local id = redis.call('ZRANGEBYSCORE', UNFINISHED, '-inf', now_ms - ABANDONED_MS,
    'LIMIT', 0, 1)[1]
  if id and not continue(id) then
    redis.call('ZREM', UNFINISHED, id)
  elseif id and agenda.kind == 'free' then
    agenda.at, agenda.told, agenda.again = '', '', 1
  end
end

-- Works on the agenda as long as the budget lasts; returns its id if something is left.
local function work()
  put('portion')
  for _ = 1, budget do
    if budget <= 0 then
      break
    end
    budget = budget - 1
    local claim = redis.call('ZRANGEBYLEX', CLAIMS, '[' .. agenda.id .. agenda.at,
      '(' .. agenda.id .. '\255', 'LIMIT', 0, 1)[1]
    if not claim then
      redis.call('HDEL', AGENDAS, agenda.id)
      redis.call('ZREM', UNFINISHED, agenda.id)
      redis.call('ZADD', GARBAGE, 0, agenda.id)
      put('done')
      return ''
    end
    agenda.at = string.sub(claim, 16, 30)
    steps[agenda.kind](claim)
  end
  redis.call('HSET', AGENDAS, agenda.id,
    cmsgpack.pack({ agenda.kind, gate, agenda.at, agenda.told, agenda.again }))
  redis.call('ZADD', UNFINISHED, now_ms, agenda.id)
  return agenda.id
end

local function delete(key, texts, ...)
  if #texts > 0 then
    redis.call('ZREM', key, unpack(texts))
  end
end

-- Deletes a part of the garbage; whether some is left.
local function collect()
  local room = COLLECTED + math.max(budget, 0)
  for _ = 1, room do
    if room <= 0 then
      break
    end
    local one = redis.call('ZRANGE', GARBAGE, 0, 0)[1]
    if not one then
      return false
    end
    local texts = beginning(ORDER, one, COLLECTED)
    local claims = beginning(CLAIMS, one, COLLECTED)
    for _, claim in ipairs(claims) do
      local life = parts_of(claim)
      if life ~= NO_LIFE then
        redis.call('ZADD', GARBAGE, 0, life)
      end
    end
    if #texts > 0 then
      redis.call('HDEL', MESSAGES, unpack(texts))
    end
    delete(ORDER, texts)
    delete(CLAIMS, claims)
    if #texts < COLLECTED and #claims < COLLECTED then
      redis.call('ZREM', GARBAGE, one)
    end
    room = room - 5 - #texts - #claims
  end
  return true
end

-- Runs `carry_out`, unless this request was carried out before. What it returns says what is
-- wrong, if anything is. `hands_out`: whether the caller of the gate is given what is set free.
local function serve(hands_out, carry_out)
  local time = redis.call('TIME')
  now_ms = math.max(total('now_ms'), time[1] * 1000 + math.floor(time[2] / 1000))
  local stored = redis.call('HGET', REPLIES, gate)
  if stored then
    local last, answer = unpack(cmsgpack.unpack(stored))
    if last == request then
      return answer
    end
  end
  -- It needs memory, and so comes before all other writes: a server that has none left refuses
  -- either all of them or none.
  redis.call('HSET', TOTALS, 'now_ms', now_ms)
  -- Where Redis has lost the gate, no gate may take its numbers for those it has seen: they begin
  -- above all that there were.
  if not redis.call('HGET', TOTALS, 'generation') then
    local beginning_us = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSET', TOTALS, 'generation', beginning_us, 'forgotten', beginning_us)
  end
  local auto = redis.call('HGET', TOTALS, 'auto')
  local wrong, id
  if auto and auto ~= bounds.auto then
    wrong = 'conflict'
  else
    redis.call('HSET', TOTALS, 'auto', bounds.auto)
    wrong = carry_out()
    id = agenda and work()
    if hands_out and (not id or id == '') then
      take_over()
      id = agenda and work()
    end
  end
  for _, entity in ipairs(told) do
    link(entity)
  end
  local garbage = collect()
  local next_one = oldest()
  local whole = with_header(id or '', garbage or (next_one and is_old(next_one)), wrong or 'ok')
  redis.call('HSET', REPLIES, gate, cmsgpack.pack({ request, whole }))
  redis.call('ZADD', HEARD, now_ms, gate)
  local gone = redis.call('ZRANGEBYSCORE', HEARD, '-inf', now_ms - REMEMBERED_MS, 'LIMIT', 0, 10)
  if #gone > 0 then
    redis.call('HDEL', REPLIES, unpack(gone))
    redis.call('ZREM', HEARD, unpack(gone))
  end
  return whole
end
