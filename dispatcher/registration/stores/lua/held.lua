-- Holds messages and registrations within bounds: the twin of waiting.py. Comes after gate.lua.
--
-- What is held of an entity from its first message or registration to its release or its end is
-- kept under a number, that of its pending life. So to end a life is a matter of a few commands,
-- however many there are: its messages stay under a number that no entity has any more, until they
-- are sent or collected.

-- How many entities one script drops at most for one reason: the next ones drop the rest.
local MOST_DROPPED = 20
local NO_LIFE = as_text(0)
local TOO_LONG = 'it was held too long'

-- Ends this script: what is held cannot be read. The gate then drops it, see mend.lua.
local function give_up()
  error('what is held is damaged')
end

local function held_registration(entity)
  local stored = redis.call('HGET', REGISTRATIONS, entity)
  if not stored then
    return nil
  end
  local record = string.sub(stored, 16)
  if whole(string.sub(stored, 1, 15)) and parent_of(record) then
    return record
  end
  redis.call('HDEL', REGISTRATIONS, entity)
  report('corrupt', entity, 1, 0, 0, 'its registration cannot be read')
end

local function number_of(entity)
  if numbers[entity] then
    return numbers[entity]
  end
  local score = redis.call('ZSCORE', PENDING, entity)
  if not score then
    return nil
  end
  local number = whole(score)
  -- Two with one number would have each other's messages.
  if not number or number > total('number')
    or #redis.call('ZRANGEBYSCORE', PENDING, score, score, 'LIMIT', 0, 2) > 1 then
    give_up()
  end
  numbers[entity] = number
  return number
end

-- How much of `key`, telemetry or metadata, `entity` holds.
local function amount(key, entity)
  local score = redis.call('ZSCORE', key, entity)
  if not score then
    return 0
  end
  local value = math.ceil(tonumber(score) / MOST_NUMBERS)
  if not (value >= 1 and value <= total(key == TELEMETRY and 'telemetry' or 'metadata')) then
    give_up()
  end
  return value
end

local function set_amount(key, entity, value)
  if value == 0 then
    redis.call('ZREM', key, entity)
  else
    redis.call('ZADD', key,
      string.format('%.0f', value * MOST_NUMBERS - (number_of(entity) or give_up())), entity)
  end
end

-- Which entity loses a message for one of `sender`: the sender itself, if none holds more.
local function victim(key, sender)
  local most = redis.call('ZREVRANGE', key, 0, 0)[1] or give_up()
  return amount(key, sender) == amount(key, most) and sender or most
end

local function forget_entity(entity)
  numbers[entity], first = nil, nil
  redis.call('ZREM', PENDING, entity)
  redis.call('HDEL', SINCE, entity)
end

local function forget_if_empty(entity)
  if not held_registration(entity)
    and amount(TELEMETRY, entity) == 0 and amount(METADATA, entity) == 0 then
    forget_entity(entity)
  end
end

-- Without reading its siblings: all of them may be released together.
local function unlink(entity, record)
  local number = string.sub(redis.call('HGET', REGISTRATIONS, entity), 1, 15)
  redis.call('ZREM', WAITING, prefix(parent_of(record)) .. number .. entity)
  redis.call('HDEL', REGISTRATIONS, entity)
end

-- Ends a pending life: its number, or NO_LIFE if it has no messages; how many registrations,
-- metadata and telemetry messages are held.
local function end_life(entity)
  local life = number_of(entity)
  if not life then
    if held_registration(entity) or amount(METADATA, entity) + amount(TELEMETRY, entity) > 0 then
      give_up()
    end
    return NO_LIFE, 0, 0, 0
  end
  budget = budget - 5
  local metadata, telemetry = amount(METADATA, entity), amount(TELEMETRY, entity)
  add('telemetry', -telemetry)
  add('metadata', -metadata)
  add('ended', metadata + telemetry)
  set_amount(TELEMETRY, entity, 0)
  set_amount(METADATA, entity, 0)
  local record = held_registration(entity)
  if record then
    unlink(entity, record)
  end
  forget_entity(entity)
  life = metadata + telemetry > 0 and as_text(life) or NO_LIFE
  return life, record and 1 or 0, metadata, telemetry
end

local function drop(entity, reason)
  examine_held()
  if number_of(entity) then
    local life, registrations, metadata, telemetry = end_life(entity)
    if life ~= NO_LIFE then
      redis.call('ZADD', GARBAGE, 0, life)
    end
    report('dropped', entity, registrations, metadata, telemetry, reason)
  end
end

local function is_old(entity)
  if young[entity] then
    return false
  end
  young[entity] = true
  local since = whole(redis.call('HGET', SINCE, entity))
  if not since or since > now_ms then
    redis.call('HSET', SINCE, entity, in_digits(now_ms)) -- that was lost: it waits from now on
    return false
  end
  young[entity] = now_ms - since < bounds.max_age_ms
  return not young[entity]
end

local function oldest()
  first = first or redis.call('ZRANGE', PENDING, 0, 0)[1]
  return first
end

local function drop_if_old(entity)
  if number_of(entity) and is_old(entity) then
    drop(entity, TOO_LONG)
    return true
  end
  return false
end

local function evict()
  for _ = 1, MOST_DROPPED do
    local entity = oldest()
    if not entity or not is_old(entity) then
      return
    end
    drop(entity, TOO_LONG)
  end
end

-- Makes `entity` a pending one.
local function pend(entity)
  if number_of(entity) then
    return
  end
  -- More than once, where another gate has a higher bound.
  for _ = 1, MOST_DROPPED do
    if redis.call('ZCARD', PENDING) < bounds.pending then
      break
    end
    examine_held()
    if not oldest() then
      break
    end
    drop(oldest(), 'there are too many pending entities')
  end
  numbers[entity] = add('number', 1)
  redis.call('ZADD', PENDING, in_digits(numbers[entity]), entity)
  redis.call('HSET', SINCE, entity, in_digits(now_ms))
  young[entity] = nil
end

local function keep(key, field, letter, entity, message)
  pend(entity)
  local text = as_text(number_of(entity)) .. letter .. next_number()
  redis.call('ZADD', ORDER, 0, text)
  redis.call('HSET', MESSAGES, text, message)
  set_amount(key, entity, amount(key, entity) + 1)
  add(field, 1)
end

local function displace(entity, sender, reason)
  local number = number_of(entity) or give_up()
  local text = beginning(ORDER, as_text(number) .. 't', 1)[1] or give_up()
  redis.call('ZREM', ORDER, text)
  redis.call('HDEL', MESSAGES, text)
  set_amount(TELEMETRY, entity, amount(TELEMETRY, entity) - 1)
  add('telemetry', -1)
  report('displaced', entity, 0, 0, 1, reason)
  -- An entity that displaces its own message keeps its age.
  if entity ~= sender then
    forget_if_empty(entity)
  end
end

local function hold_telemetry(entity, message)
  local held = amount(TELEMETRY, entity)
  if held >= bounds.each or total('telemetry') >= bounds.telemetry then
    examine_held()
    held = amount(TELEMETRY, entity)
  end
  if held >= bounds.each then
    displace(entity, entity, 'the ring of its entity is full')
  else
    for _ = 1, MOST_DROPPED do
      if total('telemetry') < bounds.telemetry then
        break
      end
      displace(victim(TELEMETRY, entity), entity, 'there is too much telemetry')
    end
  end
  keep(TELEMETRY, 'telemetry', 't', entity, message)
  report('held', entity, 0, 0, 1)
end

local function hold_metadata(entity, message)
  if total('metadata') >= bounds.metadata then
    examine_held()
  end
  for _ = 1, MOST_DROPPED do
    if total('metadata') < bounds.metadata then
      break
    end
    drop(victim(METADATA, entity), 'there is too much metadata')
  end
  keep(METADATA, 'metadata', 'm', entity, message)
  report('held', entity, 0, 1, 0)
end

local function let_go(entity)
  local record = held_registration(entity)
  if record then
    unlink(entity, record)
    report('displaced', entity, 1, 0, 0, 'a newer registration has come')
  end
end

local function forget_registration(entity)
  let_go(entity)
  if number_of(entity) then
    forget_if_empty(entity)
  end
end

local function hold_registration(entity, record)
  pend(entity)
  if held_registration(entity) == record then
    return
  end
  let_go(entity)
  local number = next_number()
  redis.call('HSET', REGISTRATIONS, entity, number .. record)
  redis.call('ZADD', WAITING, 0, prefix(parent_of(record)) .. number .. entity)
  report('held', entity, 1, 0, 0)
end
