-- What is done about keys that were evicted, deleted or damaged. It comes after gate.lua.
--
-- Some of what is stored follows from the rest, and is made anew from it, a portion with each script:
-- children and emitted from entities, waiting from registrations. What is held is forgotten, counted
-- and told, if the parts of it do not fit together: nobody may be given messages of somebody else.
-- While that lasts, the total "mending" has what is looked through, and how far.

local MENDED_AT_ONCE = 20
-- What is looked through, one after the other.
local FOLLOWING = { entities = 'emitted', emitted = 'children', children = 'registrations' }

local function add_child(parent, entity)
  if parent then
    add('children', redis.call('ZADD', CHILDREN, 0, prefix(parent) .. entity))
  end
end

local function remove_child(parent, entity)
  if parent then
    add('children', -redis.call('ZREM', CHILDREN, prefix(parent) .. entity))
  end
end

-- Whether something is missing that follows from the rest.
local function is_out_of_order()
  return redis.call('HLEN', ENTITIES) ~= redis.call('ZCARD', EMITTED)
    or total('children') ~= redis.call('ZCARD', CHILDREN)
    or redis.call('HLEN', REGISTRATIONS) > redis.call('ZCARD', WAITING)
end

local menders = {}

function menders.entities(cursor)
  local found = redis.call('HSCAN', ENTITIES, cursor, 'COUNT', MENDED_AT_ONCE)
  for i = 1, #found[2], 2 do
    local entity, record = found[2][i], found[2][i + 1]
    local is_read, parent = parsed(record)
    if not is_read then
      redis.call('HDEL', ENTITIES, entity)
      changed(entity)
      report('corrupt', entity, 1, 0, 0, 'its record cannot be read')
    else
      add_child(parent, entity)
      if not redis.call('ZSCORE', EMITTED, entity) then
        emit(entity)
      end
    end
  end
  return found[1]
end

function menders.emitted(cursor)
  local found = redis.call('ZSCAN', EMITTED, cursor, 'COUNT', MENDED_AT_ONCE)
  for i = 1, #found[2], 2 do
    if not registered(found[2][i]) then
      redis.call('ZREM', EMITTED, found[2][i])
    end
  end
  return found[1]
end

function menders.children(cursor)
  local found = redis.call('ZSCAN', CHILDREN, cursor, 'COUNT', MENDED_AT_ONCE)
  for i = 1, #found[2], 2 do
    local member = found[2][i]
    local size, from = string.match(member, '^(%d%d?%d?%d?%d?%d?%d?%d?%d?):()')
    local ends = size and from + tonumber(size)
    local record = size and registered(string.sub(member, ends))
    if not record or parent_of(record) ~= string.sub(member, from, ends - 1) then
      redis.call('ZREM', CHILDREN, member)
    end
  end
  return found[1]
end

function menders.registrations(cursor)
  local found = redis.call('HSCAN', REGISTRATIONS, cursor, 'COUNT', MENDED_AT_ONCE)
  for i = 1, #found[2], 2 do
    local entity, stored = found[2][i], found[2][i + 1]
    local parent = parent_of(string.sub(stored, 16))
    if not whole(string.sub(stored, 1, 15)) or not parent then
      redis.call('HDEL', REGISTRATIONS, entity)
      report('corrupt', entity, 1, 0, 0, 'its registration cannot be read')
    else
      redis.call('ZADD', WAITING, 0, prefix(parent) .. string.sub(stored, 1, 15) .. entity)
    end
  end
  return found[1]
end

-- Mends a portion; whether something is left.
local function mend()
  local what, cursor = string.match(redis.call('HGET', TOTALS, 'mending') or '', '^(%a+) (%d+)$')
  if not menders[what or ''] then
    if not is_out_of_order() then
      return false
    end
    what, cursor = 'entities', '0'
  end
  cursor = menders[what](cursor)
  if cursor == '0' then
    what = FOLLOWING[what]
  end
  if what then
    redis.call('HSET', TOTALS, 'mending', what .. ' ' .. cursor)
    return true
  end
  redis.call('HSET', TOTALS, 'children', redis.call('ZCARD', CHILDREN))
  redis.call('HDEL', TOTALS, 'mending')
  return false
end

local function forget_held()
  report('corrupt', '', redis.call('HLEN', REGISTRATIONS), total('metadata'), total('telemetry'),
    'what is held was damaged in Redis')
  redis.call('UNLINK', PENDING, SINCE, REGISTRATIONS, WAITING, ORDER, MESSAGES, TELEMETRY, METADATA)
  redis.call('HSET', TOTALS, 'telemetry', 0, 'metadata', 0)
end

-- What families that are set free are told from.
local function forget_claims()
  local claims = redis.call('ZCARD', CLAIMS)
  if claims > 0 then
    report('corrupt', '', claims, 0, 0, 'what was set free was damaged in Redis')
  end
  redis.call('UNLINK', CLAIMS, AGENDAS, UNFINISHED, GARBAGE)
end

-- Whether all members of a set that is ordered by text have the same score, without which they are
-- in no order.
local function is_by_text(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  return not first
    or (first == '0' and redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2] == '0')
end

-- Whether the parts of what is held fit together, as far as a few lengths tell.
local function held_fits(number)
  local pending, telemetry, metadata =
    redis.call('ZCARD', PENDING), total('telemetry'), total('metadata')
  local last = redis.call('ZREVRANGE', PENDING, 0, 0, 'WITHSCORES')[2]
  local order = redis.call('ZCARD', ORDER)
  return (not last or (whole(last) and whole(last) <= number))
    and redis.call('HLEN', REGISTRATIONS) <= pending
    and redis.call('ZCARD', TELEMETRY) <= math.min(pending, telemetry)
    and redis.call('ZCARD', METADATA) <= math.min(pending, metadata)
    and (telemetry == 0 or redis.call('ZCARD', TELEMETRY) > 0)
    and (metadata == 0 or redis.call('ZCARD', METADATA) > 0)
    and redis.call('HLEN', MESSAGES) <= order
    and telemetry + metadata <= order
    and is_by_text(ORDER)
end

local TOTALS_NEEDED = { 'number', 'telemetry', 'metadata', 'sequence', 'generation', 'forgotten',
  'children' }

-- Looks at lengths and totals alone: what else is damaged is noticed where it is used.
local function forget_what_is_damaged(time)
  local time_us = string.format('%.0f', time[1] * 1000000 + time[2])
  local totals = {}
  for i, text in ipairs(redis.call('HMGET', TOTALS, unpack(TOTALS_NEEDED))) do
    totals[TOTALS_NEEDED[i]] = text and (whole(text) or 'damaged')
  end
  local last = redis.call('ZREVRANGE', EMITTED, 0, 0, 'WITHSCORES')[2]
  local sequence = totals.sequence or (redis.call('HLEN', ENTITIES) == 0 and 0) or 'damaged'
  if sequence == 'damaged' or (last and (not whole(last) or whole(last) > sequence)) then
    -- A number that is given twice would hide what has it.
    redis.call('UNLINK', EMITTED)
    redis.call('HSET', TOTALS, 'sequence', time_us)
  end
  if totals.generation == 'damaged' or totals.forgotten == 'damaged' then
    redis.call('UNLINK', CHANGES)
    redis.call('HDEL', TOTALS, 'generation', 'forgotten')
  end
  if not totals.children or totals.children == 'damaged' then
    redis.call('HSET', TOTALS, 'children', redis.call('ZCARD', CHILDREN))
  end
  if totals.telemetry == 'damaged' or totals.metadata == 'damaged'
    or not held_fits(whole(redis.call('HGET', TOTALS, 'number')) or -1) then
    forget_held()
  end
  local has_number = totals.number and totals.number ~= 'damaged'
  if not is_by_text(CLAIMS) or (not has_number and redis.call('ZCARD', CLAIMS) > 0) then
    forget_claims()
  end
  if totals.number == 'damaged' then
    redis.call('HDEL', TOTALS, 'number')
  end
  for _, key in ipairs({ CHILDREN, WAITING }) do
    if not is_by_text(key) then
      redis.call('UNLINK', key) -- it is made anew
    end
  end
  if redis.call('HLEN', ENTITIES) < redis.call('ZCARD', EMITTED)
    and not redis.call('HGET', TOTALS, 'mending') then
    -- Gates that remember those that are lost have to ask.
    report('corrupt', '', redis.call('ZCARD', EMITTED) - redis.call('HLEN', ENTITIES), 0, 0,
      'entities were lost in Redis')
    redis.call('UNLINK', CHANGES)
    redis.call('HDEL', TOTALS, 'generation', 'forgotten')
  end
  -- An agenda that nobody would find: it is taken over when it is old.
  if redis.call('ZCARD', UNFINISHED) < redis.call('HLEN', AGENDAS) then
    local found = redis.call('HSCAN', AGENDAS, 0, 'COUNT', MENDED_AT_ONCE)[2]
    for i = 1, #found, 2 do
      redis.call('ZADD', UNFINISHED, 'NX', now_ms, found[i])
    end
  end
end
