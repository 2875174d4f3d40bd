-- How a gate that many processes share is stored, and what all its scripts have in common. It is
-- the twin of _local/room.py; held.lua is that of _local/waiting.py. Its keys share one hash tag:
--   entities       hash: registered entity -> its record
--   children       sorted set, by text: "<length of parent>:<parent><child>", of registered ones
--   emitted        sorted set: registered entity -> the sequence number of its last emission
--   changes        sorted set: entity that was removed or moved -> the generation that this made
--   pending        sorted set: pending entity -> its number; they grow with the time of arrival
--   since          hash: pending entity -> when it came
--   registrations  hash: pending entity -> the number of its registration, and the record
--   waiting        sorted set, by text: "<length of parent>:<parent><number><child>"
--   order          sorted set, by text: "<number of a pending entity>m" or "t", then a number
--   messages       hash: that text -> a checksum of it and of the message, the message
--   telemetry      sorted set: pending entity -> how many messages of it are held, see amount()
--   metadata       sorted set: the same
--   claims, agendas, unfinished, garbage    see families.lua
--   totals         hash: telemetry, metadata (how many are held), number (the last one given),
--                  sequence (that of the last emission), generation (of the last change),
--                  forgotten (that of the last change that is not in changes any more), now_ms,
--                  auto (whether entities are registered by themselves: on or off), children (how many
--                  are in children), mending (see mending.lua)
--   replies        hash: gate -> number of its last request, and the reply
--   heard          sorted set: gate -> when its last request came
-- Times are whole milliseconds of the server's clock, the only one that counts.
--
-- ARGV of each script begins with: gate, request, generation (up to which this gate has seen the
-- changes), telemetry_limit, telemetry_per_entity, metadata_limit, pending_entities, max_age_ms,
-- auto_register (0 or 1). The reply is a flat list of texts: generation (up to which the changes
-- are in this reply), the newest generation, sequence, agenda (that has to be continued, or ""),
-- "1" if old entities or garbage are left, "ok" or what is wrong, how many changes (-1: more than
-- are remembered, any entity may have changed), changed entities ..., and then
--   "report", name, entity, registrations, metadata, telemetry, reason
--   "release", entity, record ("" if it is not new), registrations, metadata, telemetry that were
--   held of it
--   "messages", what they are ("m": held metadata, "t": held telemetry, "": the one that has come),
--   how many, messages ... (of the last release)
--   "links", a list as JSON: registered entity, its parent ("" if it has none), for each
--   "portion": the releases that follow are of an agenda
--   "done": these were the last ones of it
--   "taken", how many of the registrations that were asked for are carried out
--   "wrong", the position of a key that is of another type
-- A request that is sent again, since its reply was lost, is not carried out again: the reply is
-- the stored one.
--
-- No script takes more than some milliseconds, whatever is stored: each loop has a bound of its
-- own, and what is too much for one script is continued by the next ones, see families.lua.

local ENTITIES, CHILDREN, EMITTED, CHANGES = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local PENDING, SINCE, REGISTRATIONS, WAITING = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local ORDER, MESSAGES, TELEMETRY, METADATA = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local CLAIMS, AGENDAS, UNFINISHED, GARBAGE = KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local TOTALS, REPLIES, HEARD = KEYS[17], KEYS[18], KEYS[19]

local MOST_DEEP = 1000
-- How many changes are remembered, and how many of them are in one reply.
local MOST_CHANGES, CHANGES_AT_ONCE = 10000, 500
-- Above the number of any entity: so amounts come first, and of equal ones the oldest entity.
local MOST_NUMBERS = 1099511627776

local gate, request, seen = ARGV[1], ARGV[2], tonumber(ARGV[3])
local bounds = {
  telemetry = tonumber(ARGV[4]),
  each = tonumber(ARGV[5]),
  metadata = tonumber(ARGV[6]),
  pending = tonumber(ARGV[7]),
  max_age_ms = tonumber(ARGV[8]),
  auto = ARGV[9] == '1' and 'on' or 'off', -- no bit makes one of the other
}
-- How much this script may still do; a step takes about three microseconds.
local budget = 250
local reply = {}
local now_ms

local function put(...)
  for _, value in ipairs({ ... }) do
    -- Lua would write a number of so many digits in another way.
    reply[#reply + 1] = type(value) == 'number' and string.format('%.0f', value) or value
  end
end

local function report(name, entity, registrations, metadata, telemetry, reason)
  put('report', name, entity, registrations, metadata, telemetry, reason or '')
end

-- The whole number, not below 0, that a text is; nil of any other text.
local function whole(text)
  local number = text and #text < 17 and string.match(text, '^%d+$') and tonumber(text)
  return number and number < 2 ^ 53 and number or nil
end

local function total(field)
  return whole(redis.call('HGET', TOTALS, field)) or 0
end

local function add(field, amount)
  -- As a whole number: Lua writes a zero that was negated as "-0".
  return redis.call('HINCRBY', TOTALS, field, string.format('%d', amount))
end

local function as_text(number)
  return string.format('%015d', number)
end

local function next_number()
  return as_text(add('number', 1))
end

local function prefix(name)
  return #name .. ':' .. name
end

local function checksum(text)
  return string.sub(redis.sha1hex(text), 1, 8)
end

-- Members that begin with `start`, at most `count`.
local function beginning(key, start, count)
  return redis.call('ZRANGEBYLEX', key, '[' .. start, '(' .. start .. '\255', 'LIMIT', 0, count)
end

-- The text that a record begins with, as JSON has it.
local function first_text(record)
  local at = 2
  for _ = 1, #record do
    at = string.find(record, '["\\]', at + 1)
    if not at or string.sub(record, at, at) == '"' then
      break
    end
    at = at + 1
  end
  return at and string.sub(record, 2, at) or ''
end

-- Whether a record can be read, and the parent in it. It is a list as JSON: the parent, the data.
-- The data are read by gates alone.
local function parsed(record)
  if string.find(record, '^%[null,.*%]$') then
    return true
  end
  local plain = string.match(record, '^%["([^"\\%c]+)",.*%]$')
  if plain then
    return true, plain
  end
  if string.find(record, '^%[".*%]$') then
    local is_read, names = pcall(cjson.decode, '[' .. first_text(record) .. ']')
    if is_read and type(names[1]) == 'string' then
      return true, names[1]
    end
  end
  return false
end

local function parent_of(record)
  local _, parent = parsed(record)
  return parent
end

-- One whose record cannot be read is not registered: it is when its registration comes again.
local function registered(entity)
  local record = redis.call('HGET', ENTITIES, entity)
  return record and parsed(record) and record or false
end

-- Whether `entity` and all its ancestors are registered. While a family is removed, those that
-- have not been reached yet are still registered, but their place is gone.
local function rooted(entity)
  for _ = 0, MOST_DEEP do
    local record = registered(entity)
    if not record then
      return false
    end
    entity = parent_of(record)
    if not entity then
      return true
    end
  end
  return false
end

-- Who the parents of `entity` and of its ancestors are, as long as there is time: what is not in
-- the reply is looked up when it is needed. A list as JSON is read faster than as many texts.
local linked, links = {}, {}
local function link(entity)
  for _ = 0, budget + MOST_DEEP do
    local record = not linked[entity] and registered(entity)
    if not record then
      return
    end
    linked[entity] = true
    budget = budget - 1
    local parent = parent_of(record)
    links[#links + 1] = entity
    links[#links + 1] = parent or ''
    if not parent then
      return
    end
    entity = parent
  end
end

-- Other gates may remember of `entity` what is no longer so.
local function changed(entity)
  redis.call('ZADD', CHANGES, add('generation', 1), entity)
  if redis.call('ZCARD', CHANGES) > MOST_CHANGES then
    local oldest = redis.call('ZRANGE', CHANGES, 0, 0, 'WITHSCORES')
    redis.call('ZREM', CHANGES, oldest[1])
    redis.call('HSET', TOTALS, 'forgotten', oldest[2])
  end
end

local function emit(entity)
  redis.call('ZADD', EMITTED, add('sequence', 1), entity)
end

-- The reply with all that comes before what has been put in it.
local function with_header(agenda, more, status)
  if #links > 0 then
    put('links', cjson.encode(links))
  end
  local newest, sequence = redis.call('HGET', TOTALS, 'generation') or '0', total('sequence')
  local generation, count, changes = newest, 0, {}
  if seen > tonumber(newest) or seen < total('forgotten') then
    count = -1
  elseif seen < tonumber(newest) then
    -- As it was sent: Lua would write a number of so many digits in another way.
    changes = redis.call(
      'ZRANGEBYSCORE', CHANGES, '(' .. ARGV[3], newest, 'LIMIT', 0, CHANGES_AT_ONCE
    )
    count = #changes
    if count == CHANGES_AT_ONCE then
      generation = redis.call('ZSCORE', CHANGES, changes[count])
    end
  end
  local whole = { generation, newest, string.format('%.0f', sequence), agenda, more and '1' or '', status,
    tostring(count) }
  for _, list in ipairs({ changes, reply }) do
    for _, value in ipairs(list) do
      whole[#whole + 1] = value
    end
  end
  return whole
end
