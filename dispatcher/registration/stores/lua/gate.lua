-- Storage of a gate that many processes share, and the functions that all its scripts need. It is
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
--   messages       hash: that text -> the message, with a checksum that the gates make and look at
--   telemetry      sorted set: pending entity -> how many messages of it are held, see amount()
--   metadata       sorted set: the same
--   claims, agendas, unfinished, garbage    see families.lua
--   totals         hash: telemetry, metadata (how many are held), ended (how many entries of order
--                  belong to lives that have ended), number (the last one given),
--                  sequence (that of the last emission), generation (of the last change),
--                  forgotten (that of the last change that is not in changes any more), now_ms,
--                  auto (whether entities are registered by themselves: on or off), children (how many
--                  are in children), `mending` (see mending.lua), examined_ms (when a
--                  script last looked through everything), existing (how many keys
--                  there were when the last script ended: if there are fewer, Redis has lost some)
--   replies        hash: gate -> number of its last request, and the reply
--   `heard`        sorted set: gate -> when its last request came
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

local ENTITIES, CHILDREN, EMITTED, CHANGES, PENDING, SINCE, REGISTRATIONS, WAITING,
  ORDER, MESSAGES, TELEMETRY, METADATA, CLAIMS, AGENDAS, UNFINISHED, GARBAGE,
  TOTALS, REPLIES, HEARD = unpack(KEYS)

local MOST_DEEP = 1000
-- How many changes are remembered, and how many of them are in one reply.
local MOST_CHANGES, CHANGES_AT_ONCE = 10000, 500
-- Above the number of any entity: so amounts come first, and of equal ones the oldest entity.
local MOST_NUMBERS = 1099511627776
-- Above any other total, with room to grow: some begin at the microseconds of the clock.
local MOST_COUNTED = 2 ^ 52
-- Numbers that one script gives at most.
local MOST_AT_ONCE = 1048576

local gate, request, seen = ARGV[1], ARGV[2], tonumber(ARGV[3])
local bounds = {
  telemetry = tonumber(ARGV[4]),
  each = tonumber(ARGV[5]),
  metadata = tonumber(ARGV[6]),
  pending = tonumber(ARGV[7]),
  max_age_ms = tonumber(ARGV[8]),
  auto = ARGV[9] == '1' and 'on' or 'off', -- no bit makes one of the other
}
-- The remaining budget of this script; a step takes about three microseconds.
local budget = 250
local reply = {}
local now_ms, now_us

-- Calls `make` when its result is first needed: to create functions that a script never calls would
-- take as long as many commands.
local function once(make)
  local made
  return function()
    made = made or make()
    return made
  end
end

local function put(...)
  for _, value in ipairs({ ... }) do
    -- Lua would write a number of so many digits in another way.
    reply[#reply + 1] = type(value) == 'number' and string.format('%d', value) or value
  end
end

local function report(name, entity, registrations, metadata, telemetry, reason)
  put('report', name, entity, registrations, metadata, telemetry, reason or '')
end

-- Converts a text to a whole number, not below 0; nil for any other text.
local function whole(text)
  local number = text and #text < 17 and string.find(text, '^%d+$') and tonumber(text)
  return number and number < 2 ^ 53 and number or nil
end

-- By the server's clock.
local function read_time()
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  now_us = time[1] * 1000000 + time[2]
end

-- The totals are read once, by read_totals(), and written once, by write_totals(): until then they
-- are here alone, and changed by set_total() and add(). Those that are whole numbers come first.
local NUMBERS = 9
local TOTAL_FIELDS = {
  'telemetry', 'metadata', 'number', 'sequence', 'generation', 'forgotten', 'children', 'ended', 'existing',
  'now_ms', 'examined_ms', 'auto', 'mending',
}
-- false: it does not exist, or is not a number although it has to be one.
local totals, unwritten = {}, {}
local are_totals_whole = true

local function read_totals()
  local found = redis.call('HMGET', TOTALS, unpack(TOTAL_FIELDS))
  for i = 1, NUMBERS do
    local field, number = TOTAL_FIELDS[i], whole(found[i])
    -- Larger ones cannot occur. They would be written with more digits than the others, which
    -- are in order by their texts, or could not be counted on.
    local most = field == 'number' and MOST_NUMBERS - MOST_AT_ONCE or MOST_COUNTED
    number = number and number < most and number
    totals[field] = number or false
    are_totals_whole = are_totals_whole and number
  end
  totals.now_ms, totals.examined_ms = whole(found[10]) or 0, whole(found[11]) or 0
  totals.auto, totals.mending = found[12], found[13]
end

local function set_total(field, value)
  if totals[field] ~= value then
    totals[field], unwritten[field] = value, true
  end
end

local function total(field)
  return totals[field] or 0
end

local function add(field, amount)
  local value = total(field) + amount
  set_total(field, value)
  return value
end

local function in_digits(number)
  return string.format('%d', number)
end

-- How many keys there are of those that a gate cannot do without.
local function count_keys()
  return redis.call('EXISTS', ENTITIES, CHILDREN, EMITTED, PENDING, REGISTRATIONS, WAITING, ORDER,
    MESSAGES, TELEMETRY, METADATA, CLAIMS, AGENDAS)
end

local function write_totals()
  set_total('existing', count_keys())
  local values, gone = {}, {}
  for field in pairs(unwritten) do
    local value = totals[field]
    if value then
      values[#values + 1] = field
      values[#values + 1] = type(value) == 'number' and in_digits(value) or value
    else
      gone[#gone + 1] = field
    end
  end
  if #values > 0 then
    redis.call('HSET', TOTALS, unpack(values))
  end
  if #gone > 0 then
    redis.call('HDEL', TOTALS, unpack(gone))
  end
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

-- Entries that begin with `start`, at most `count`.
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

-- An entity whose record cannot be read counts as not registered, until its registration comes again.
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

-- Adds the parents of `entity` and of its ancestors, as long as the budget lasts: what is not in
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

-- Other gates may have cached an outdated state of `entity`.
local function changed(entity)
  redis.call('ZADD', CHANGES, add('generation', 1), entity)
  if redis.call('ZCARD', CHANGES) > MOST_CHANGES then
    local oldest = redis.call('ZRANGE', CHANGES, 0, 0, 'WITHSCORES')
    redis.call('ZREM', CHANGES, oldest[1])
    set_total('forgotten', whole(oldest[2]) or false)
  end
end

local function emit(entity)
  redis.call('ZADD', EMITTED, add('sequence', 1), entity)
end

-- Completes the reply with its header.
local function with_header(agenda, more, status)
  if #links > 0 then
    put('links', cjson.encode(links))
  end
  local newest, sequence = in_digits(total('generation')), in_digits(total('sequence'))
  local generation, count, changes = newest, 0, {}
  if seen > tonumber(newest) or seen < total('forgotten') then
    count = -1
  elseif seen < tonumber(newest) then
    -- As it was sent: Lua would write a number of so many digits in another way.
    changes = redis.call(
      'ZRANGEBYSCORE', CHANGES, '(' .. ARGV[3], newest, 'LIMIT', 0, CHANGES_AT_ONCE
    )
    count = #changes
    local last = count > 0 and redis.call('ZSCORE', CHANGES, changes[count])
    if count == CHANGES_AT_ONCE then
      generation = last
    elseif last ~= newest then
      changes, count = {}, -1 -- the last change is lost
    end
  end
  local whole = { generation, newest, sequence, agenda, more and '1' or '', status,
    tostring(count) }
  for _, list in ipairs({ changes, reply }) do
    for _, value in ipairs(list) do
      whole[#whole + 1] = value
    end
  end
  return whole
end
