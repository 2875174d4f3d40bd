-- Detects keys that were evicted, deleted or damaged. Comes after gate.lua.
--
-- Keys that are derived from others are rebuilt, see mending.lua. What is held is dropped, counted
-- and reported, if its parts do not fit together: no entity may be given messages of another.
--
-- Each script notices evicted keys, by the number of keys, and totals that are no numbers.
-- A script examines everything if there was such damage, once a second, and to evict or remove
-- something. The others examine what they rely on: what is held, before they take something
-- away from it; claims before they work on them. To hold one more message, a script relies only on
-- what is read for it.

-- State of pending entities that this script has read, see held.lua.
local numbers, young, first = {}, {}, nil

-- The parts that this script has examined, and whether something is missing.
local is_held_examined, is_all_examined, is_to_be_mended = false, false, false

local EXAMINED_MS = 1000

local examination = once(function()
  local AGENDAS_AT_ONCE = 20
  local lengths = {}

  local HASHES = {
    [ENTITIES] = true, [SINCE] = true, [REGISTRATIONS] = true, [MESSAGES] = true,
    [AGENDAS] = true, [TOTALS] = true, [REPLIES] = true,
  }

  local function read_lengths(...)
    for _, key in ipairs({ ... }) do
      lengths[key] = redis.call(HASHES[key] and 'HLEN' or 'ZCARD', key)
    end
  end

  local function read_held()
    read_lengths(REGISTRATIONS, MESSAGES, PENDING, WAITING, ORDER, TELEMETRY, METADATA)
  end

  local function read_entities()
    read_lengths(ENTITIES, EMITTED, CHILDREN)
  end

  local function forget(...)
    redis.call('UNLINK', ...)
    for _, key in ipairs({ ... }) do
      lengths[key] = 0
    end
  end

  local function forget_held()
    report('corrupt', '', redis.call('HLEN', REGISTRATIONS), total('metadata'), total('telemetry'),
      'what is held was damaged in Redis')
    forget(PENDING, SINCE, REGISTRATIONS, WAITING, ORDER, MESSAGES, TELEMETRY, METADATA)
    set_total('telemetry', 0)
    set_total('metadata', 0)
    set_total('ended', 0)
    numbers, young, first = {}, {}, nil
  end

  -- The keys from which released families are read.
  local function forget_claims()
    if lengths[CLAIMS] > 0 then
      report('corrupt', '', lengths[CLAIMS], 0, 0, 'what was set free was damaged in Redis')
    end
    forget(CLAIMS, AGENDAS, UNFINISHED, GARBAGE)
  end

  -- A new generation: all gates have to ask again.
  local function forget_changes()
    forget(CHANGES)
    set_total('generation', now_us)
    set_total('forgotten', now_us)
  end

  -- The highest score of a key; nil if there is none.
  local function highest(key)
    return lengths[key] > 0 and redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2] or nil
  end

  -- Whether all entries of a set that is ordered by text have the same score, without which they are
  -- in no order.
  local function is_by_text(key)
    return lengths[key] == 0 or redis.call('ZCOUNT', key, 0, 0) == lengths[key]
  end

  -- Whether the parts of what is held fit together, judged by a few lengths.
  local function held_fits()
    local pending, telemetry, metadata = lengths[PENDING], totals.telemetry, totals.metadata
    local last = highest(PENDING)
    return telemetry and metadata
      and (totals.number or pending + lengths[ORDER] == 0)
      and (not last or (whole(last) and whole(last) <= totals.number))
      and lengths[REGISTRATIONS] <= pending
      and lengths[TELEMETRY] <= math.min(pending, telemetry)
      and lengths[METADATA] <= math.min(pending, metadata)
      and (telemetry == 0 or lengths[TELEMETRY] > 0)
      and (metadata == 0 or lengths[METADATA] > 0)
      and telemetry + metadata + total('ended') <= lengths[ORDER]
      and is_by_text(ORDER)
  end

  local function look_at_held()
    is_held_examined = true
    read_held()
    if not held_fits() then
      forget_held()
    end
    if not is_by_text(WAITING) then
      forget(WAITING) -- it is rebuilt
    end
    is_to_be_mended = is_to_be_mended or lengths[REGISTRATIONS] > lengths[WAITING]
      or lengths[MESSAGES] > lengths[ORDER]
  end

  -- Whether a derived key is incomplete.
  local function is_out_of_order()
    return lengths[ENTITIES] ~= lengths[EMITTED]
      or total('children') ~= lengths[CHILDREN]
      or lengths[REGISTRATIONS] > lengths[WAITING]
  end

  -- Of two entities with one number, one would be hidden.
  local function look_at_sequence()
    local last = redis.call('ZREVRANGE', EMITTED, 0, 0, 'WITHSCORES')[2]
    if not (totals.sequence or redis.call('HLEN', ENTITIES) == 0)
      or (last and (not whole(last) or whole(last) > total('sequence'))) then
      forget(EMITTED)
      set_total('sequence', now_us)
      is_to_be_mended = true
    end
  end

  local function look_at_entities()
    read_entities()
    look_at_sequence()
    if not totals.generation or not totals.forgotten then
      forget_changes()
    end
    if not totals.children then
      set_total('children', lengths[CHILDREN])
    end
    if not is_by_text(CHILDREN) then
      forget(CHILDREN) -- it is rebuilt
    end
    if lengths[ENTITIES] < lengths[EMITTED] and not totals.mending then
      -- Gates that have cached lost entities have to ask.
      report('corrupt', '', lengths[EMITTED] - lengths[ENTITIES], 0, 0,
        'entities were lost in Redis')
      forget_changes()
    end
    is_to_be_mended = is_to_be_mended or is_out_of_order()
  end

  local function look_at_claims()
    read_lengths(CLAIMS)
    if not is_by_text(CLAIMS) or not totals.number then
      forget_claims()
    end
  end

  local function look_at_agendas()
    read_lengths(UNFINISHED, AGENDAS)
    -- An agenda that no gate would find: it is taken over when it is old.
    if lengths[UNFINISHED] < lengths[AGENDAS] then
      local found = redis.call('HSCAN', AGENDAS, 0, 'COUNT', AGENDAS_AT_ONCE)[2]
      for i = 1, #found, 2 do
        redis.call('ZADD', UNFINISHED, 'NX', now_ms, found[i])
      end
    end
  end

  -- Checks lengths and totals alone: other damage is noticed where it matters.
  local function look_at_all()
    is_all_examined = true
    look_at_held()
    look_at_entities()
    look_at_claims()
    look_at_agendas()
    set_total('examined_ms', now_ms)
    for i = 1, NUMBERS do
      if not totals[TOTAL_FIELDS[i]] then
        set_total(TOTAL_FIELDS[i], 0)
      end
    end
  end

  return {
    HASHES = HASHES,
    is_in_order = function(key)
      read_lengths(key)
      return is_by_text(key)
    end,
    forget_held = forget_held,
    look_at_all = look_at_all,
    look_at_claims = look_at_claims,
    look_at_sequence = look_at_sequence,
    look_at_held = look_at_held,
    is_out_of_order = function()
      read_held()
      read_entities()
      return is_out_of_order()
    end,
  }
end)

-- Examines everything.
local function examine()
  if not is_all_examined then
    examination().look_at_all()
  end
end

-- Examines what is held, before something is taken away from it: a step that is under way has
-- read nothing of it yet.
local function examine_held()
  if not is_held_examined then
    examination().look_at_held()
  end
end
