-- Releases or removes a family, in portions. Comes after held.lua.
--
-- An agenda is the work that one call has started: it processes its claims in order, and
-- each may bring further ones, those of its children. To claim an entity is to register it, or to
-- remove it. What it held is sent afterwards, and stays stored until the last portion is sent. So
-- a gate hands out what was released when it has all of it. If it dies before that, another
-- gate with a message or a registration takes its agenda over, and receives all of it, from the
-- beginning.
--   claims      sorted set, by text: "<agenda><number><life><checksum><length of entity>:<entity>",
--               how many registrations, metadata and telemetry messages were held, with ",", and the
--               record. The checksum is of all the rest
--   agendas     hash: agenda -> kind, gate, number of the claim it has come to, the last message
--               of that claim that was sent, whether another gate has sent some of it before
--   unfinished  sorted set: agenda -> when it was last continued
--   garbage     sorted set: agendas that are done and lives that have ended, whose claims and
--               messages are to be deleted; a few with each call

local agenda

-- Entities whose links are in the reply, as they are after all changes of this script.
local told = {}

local function tell(entity, record, registrations, metadata, telemetry)
  put('release', entity, record, registrations, metadata, telemetry)
  told[#told + 1] = entity
end

-- Unpacks a list of this length; nothing if it cannot be read.
local function unpacked(stored, count)
  local is_read, list = pcall(cmsgpack.unpack, stored)
  if is_read and type(list) == 'table' and #list == count then
    return unpack(list)
  end
end

local families = once(function()
  -- How many messages and how many children are processed in one step.
  local MESSAGES_AT_ONCE, CHILDREN_AT_ONCE = 50, 10
  -- How many texts of the garbage one script deletes, in addition to its own work.
  local COLLECTED = 200

  local function begin(kind)
    if not agenda and not is_all_examined then
      examination().look_at_claims()
      examination().look_at_sequence()
    end
    agenda = agenda or { id = next_number(), kind = kind, at = '', told = '', again = 0 }
  end

  local function put_claim(entity, life, held, record)
    local place = agenda.id .. next_number() .. life
    local rest = prefix(entity) .. table.concat(held, ',') .. record
    redis.call('ZADD', CLAIMS, 0, place .. checksum(place .. rest) .. rest)
  end

  local function is_id(text)
    return #text == 15 and whole(text)
  end

  -- nil if it cannot be read.
  local function parts_of(claim)
    local life, rest = string.sub(claim, 31, 45), string.sub(claim, 54)
    if string.sub(claim, 46, 53) ~= checksum(string.sub(claim, 1, 45) .. rest) then
      return nil
    end
    local size, from = string.match(rest, '^(%d+):()')
    local ends = from + tonumber(size)
    local one, other, third, record = string.match(string.sub(rest, ends), '^(%d+),(%d+),(%d+)(.*)$')
    return life, string.sub(rest, from, ends - 1), record, { one, other, third }
  end

  local function next_claim()
    agenda.at, agenda.told = agenda.at .. '\255', ''
  end

  local function register_now(entity, record)
    budget = budget - 10
    local life, registrations, metadata, telemetry = end_life(entity)
    local before, parent = registered(entity), parent_of(record)
    report(before and 'updated' or 'registered', entity, 1, 0, 0)
    if before and parent_of(before) ~= parent then
      changed(entity)
      remove_child(parent_of(before), entity)
    end
    redis.call('HSET', ENTITIES, entity, record)
    add_child(parent, entity)
    emit(entity)
    put_claim(entity, life, { registrations, metadata, telemetry }, record)
  end

  -- Registers `entity`, and then every held descendant: parents before children.
  local function admit(entity, record)
    begin('free')
    register_now(entity, record)
  end

  local function remove_now(entity, record)
    budget = budget - 5
    remove_child(parent_of(record), entity)
    redis.call('HDEL', ENTITIES, entity)
    redis.call('ZREM', EMITTED, entity)
    changed(entity)
    report('deregistered', entity, 1, 0, 0)
    put_claim(entity, NO_LIFE, { 0, 0, 0 }, '')
  end

  -- Removes `entity`, and then every registered descendant: parents before children.
  local function remove(entity)
    begin('remove')
    remove_now(entity, registered(entity))
  end

  -- Whether all messages of a claim were sent.
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
    local metadata, telemetry = {}, {}
    for i, body in ipairs(redis.call('HMGET', MESSAGES, unpack(texts))) do
      -- A missing one is counted by the gate, since the number is part of the claim.
      if body then
        local some = string.sub(texts[i], 16, 16) == 'm' and metadata or telemetry
        some[#some + 1] = body
        budget = budget - 1 - math.floor(#body / 4096)
      end
    end
    put('messages', 'm', #metadata, unpack(metadata))
    put('messages', 't', #telemetry, unpack(telemetry))
    agenda.told = texts[#texts]
    return #texts < MESSAGES_AT_ONCE
  end

  local function free_children(entity)
    if not rooted(entity) then
      return true
    end
    local start = prefix(entity)
    examine_held()
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
    -- An entity that is registered again has a place for its children.
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
      add('children', -redis.call('ZREM', CHILDREN, member))
    end
    return #members < CHILDREN_AT_ONCE
  end

  local steps = {}

  function steps.free(claim)
    local life, entity, record, held = parts_of(claim)
    if not life then
      report('corrupt', '', 1, 0, 0, 'what was set free cannot be read')
      return next_claim()
    end
    if agenda.told == '' then
      if agenda.again == 1 and registered(entity) == record then
        emit(entity)
      end
      tell(entity, record, unpack(held))
      agenda.told = life
    end
    if not tell_messages(life) then
      return
    end
    if agenda.message then
      put('messages', '', 1, agenda.message)
      agenda.message = nil
    end
    if free_children(entity) then
      next_claim()
    end
  end

  function steps.remove(claim)
    local life, entity = parts_of(claim)
    if not life or remove_children(entity) then
      next_claim()
    end
  end

  -- The gate of an agenda; nil if it cannot be read, or does not exist.
  local function continue(id)
    local stored = redis.call('HGET', AGENDAS, id)
    local kind, owner, at, last, again = unpacked(stored or '', 5)
    if not steps[kind or ''] or type(at) ~= 'string' or type(last) ~= 'string' then
      return nil
    end
    agenda = { id = id, kind = kind, at = at, told = last, again = again }
    return owner
  end

  -- An agenda whose state is lost begins again: its kind is in its claims.
  local function begin_again(id)
    local claim = is_id(id) and beginning(CLAIMS, id, 1)[1]
    if claim then
      local _, _, record = parts_of(claim)
      agenda = { id = id, kind = record == '' and 'remove' or 'free', at = '', told = '', again = 1 }
    else
      redis.call('ZREM', UNFINISHED, id)
      redis.call('HDEL', AGENDAS, id)
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
    if not (examination().is_in_order(ORDER) and examination().is_in_order(CLAIMS)) then
      return true
    end
    local room = COLLECTED + math.max(budget, 0)
    for _ = 1, room do
      if room <= 0 then
        break
      end
      local one = redis.call('ZRANGE', GARBAGE, 0, 0)[1]
      if not one then
        return false
      end
      if not is_id(one) then
        redis.call('ZREM', GARBAGE, one)
        return true
      end
      local texts = beginning(ORDER, one, COLLECTED)
      local claims = beginning(CLAIMS, one, COLLECTED)
      for _, claim in ipairs(claims) do
        local life = parts_of(claim)
        if life and life ~= NO_LIFE then
          redis.call('ZADD', GARBAGE, 0, life)
        end
      end
      if #texts > 0 then
        redis.call('HDEL', MESSAGES, unpack(texts))
        add('ended', -#texts)
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

  -- Assigns the agenda of a dead gate to this gate.
  local function take_over(id)
    examine()
    if not continue(id) then
      begin_again(id)
    elseif agenda.kind == 'free' then
      agenda.at, agenda.told, agenda.again = '', '', 1
    end
  end

  return {
    admit = admit,
    collect = collect,
    continue = continue,
    remove = remove,
    take_over = take_over,
    work = work,
  }
end)
