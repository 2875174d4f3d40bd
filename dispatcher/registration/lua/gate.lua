-- How a gate that many processes share is stored, and what all its scripts have in common. It is
-- the twin of waiting.py and local.py. Its keys, which share one hash tag:
--   entities       hash: registered entity -> its record
--   children       sorted set, by text: "<length of parent>:<parent><child>", of registered ones
--   pending        sorted set: pending entity -> its number; they grow with the time of arrival
--   since          hash: pending entity -> when it came
--   registrations  hash: pending entity -> the number of its registration, and the record
--   waiting        sorted set, by text: "<length of parent>:<parent><number><child>"
--   order          sorted set, by text: "<length of entity>:<entity>m" or "t", then a number
--   messages       hash: that text -> the message
--   telemetry      sorted set: pending entity -> how many messages of it are held, see most()
--   metadata       sorted set: the same
--   totals         hash: telemetry, metadata (how many are held), number (the last one given),
--                  generation (grows when what other processes remember may be wrong), now_ms,
--                  auto (whether entities are registered by themselves: 0 or 1)
--   replies        hash: gate -> number of its last request, and what it was told
--   heard          sorted set: gate -> when it was heard of
-- Times are whole milliseconds of the server's clock, the only one that counts.
--
-- ARGV of each script that changes something begins with: gate, request, telemetry_limit,
-- telemetry_per_entity, metadata_limit, pending_entities, max_age_ms, auto_register (0 or 1).
-- Its reply is a flat list of texts: the generation, "ok" or what is wrong, and then
--   "release", entity, topmost, record ("" if it is not new), how many messages, messages ...
--   "report", name, entity, registrations, metadata, telemetry, reason
-- A request that is sent again, since its reply was lost, is not carried out again: it is told
-- what it was told before.

local ENTITIES, CHILDREN, PENDING, SINCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local REGISTRATIONS, WAITING, ORDER, MESSAGES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local TELEMETRY, METADATA, TOTALS = KEYS[9], KEYS[10], KEYS[11]
local REPLIES, HEARD = KEYS[12], KEYS[13]

local MOST_DEEP = 1000
local REMEMBERED_MS = 3600000
-- Above the number of any entity: so amounts come first, and of equal ones the oldest entity.
local MOST_NUMBERS = 1099511627776

local bounds = {
  telemetry = tonumber(ARGV[3]),
  each = tonumber(ARGV[4]),
  metadata = tonumber(ARGV[5]),
  pending = tonumber(ARGV[6]),
  max_age_ms = tonumber(ARGV[7]),
  auto = ARGV[8],
}
local reply = {}
local now_ms

local function report(name, entity, registrations, metadata, telemetry, reason)
  for _, value in ipairs({ 'report', name, entity, registrations, metadata, telemetry }) do
    reply[#reply + 1] = tostring(value)
  end
  reply[#reply + 1] = reason or ''
end

local function total(field)
  return tonumber(redis.call('HGET', TOTALS, field) or 0)
end

local function add(field, amount)
  -- As a whole number: Lua writes a zero that was negated as "-0".
  return redis.call('HINCRBY', TOTALS, field, string.format('%d', amount))
end

local function next_number()
  return string.format('%015d', add('number', 1))
end

local function prefix(name)
  return #name .. ':' .. name
end

-- All members that begin with `start`.
local function beginning(key, start, ...)
  return redis.call('ZRANGEBYLEX', key, '[' .. start, '(' .. start .. '\255', ...)
end

local function parent_of(record)
  local parent = cjson.decode(record)[1]
  return parent ~= cjson.null and parent or nil
end

local function registered(entity)
  return redis.call('HGET', ENTITIES, entity)
end

local function held_registration(entity)
  local stored = redis.call('HGET', REGISTRATIONS, entity)
  return stored and string.sub(stored, 16)
end

local function number_of(entity)
  return tonumber(redis.call('ZSCORE', PENDING, entity))
end

-- How much of `key`, telemetry or metadata, `entity` holds.
local function amount(key, entity)
  local score = redis.call('ZSCORE', key, entity)
  return score and math.ceil(tonumber(score) / MOST_NUMBERS) or 0
end

local function set_amount(key, entity, value)
  if value == 0 then
    redis.call('ZREM', key, entity)
  else
    redis.call('ZADD', key,
      string.format('%.0f', value * MOST_NUMBERS - number_of(entity)), entity)
  end
end

-- Who gives way to `sender`: itself, if nobody holds more.
local function victim(key, sender)
  local most = redis.call('ZREVRANGE', key, 0, 0)[1]
  return amount(key, sender) == amount(key, most) and sender or most
end

local function forget_entity(entity)
  redis.call('ZREM', PENDING, entity)
  redis.call('HDEL', SINCE, entity)
end

local function forget_if_empty(entity)
  if not held_registration(entity)
    and amount(TELEMETRY, entity) == 0 and amount(METADATA, entity) == 0 then
    forget_entity(entity)
  end
end

-- Without looking at its siblings: all of them may be set free at once.
local function unlink(entity, record)
  local number = string.sub(redis.call('HGET', REGISTRATIONS, entity), 1, 15)
  redis.call('ZREM', WAITING, prefix(parent_of(record)) .. number .. entity)
end

-- Takes what is held: how many registrations, and the messages, metadata first.
local function take(entity)
  local texts = beginning(ORDER, prefix(entity))
  local metadata, telemetry = amount(METADATA, entity), amount(TELEMETRY, entity)
  local messages = {}
  for i, text in ipairs(texts) do
    messages[i] = redis.call('HGET', MESSAGES, text)
    redis.call('HDEL', MESSAGES, text)
    redis.call('ZREM', ORDER, text)
  end
  add('telemetry', -telemetry)
  add('metadata', -metadata)
  set_amount(TELEMETRY, entity, 0)
  set_amount(METADATA, entity, 0)
  local record = held_registration(entity)
  if record then
    unlink(entity, record)
    redis.call('HDEL', REGISTRATIONS, entity)
  end
  forget_entity(entity)
  return record and 1 or 0, metadata, telemetry, messages
end

local function drop(entity, reason)
  if number_of(entity) then
    local registrations, metadata, telemetry = take(entity)
    report('dropped', entity, registrations, metadata, telemetry, reason)
  end
end

local function evict()
  local dropped = 0
  while true do
    local oldest = redis.call('ZRANGE', PENDING, 0, 0)[1]
    if not oldest
      or now_ms - tonumber(redis.call('HGET', SINCE, oldest)) < bounds.max_age_ms then
      return dropped
    end
    drop(oldest, 'it was held too long')
    dropped = dropped + 1
  end
end

-- Makes `entity` a pending one.
local function pend(entity)
  if number_of(entity) then
    return
  end
  -- As often as is needed: another gate may have other bounds.
  while redis.call('ZCARD', PENDING) >= bounds.pending do
    drop(redis.call('ZRANGE', PENDING, 0, 0)[1], 'there are too many pending entities')
  end
  redis.call('ZADD', PENDING, tonumber(next_number()), entity)
  redis.call('HSET', SINCE, entity, now_ms)
end

local function keep(key, field, letter, entity, message)
  pend(entity)
  local text = prefix(entity) .. letter .. next_number()
  redis.call('ZADD', ORDER, 0, text)
  redis.call('HSET', MESSAGES, text, message)
  set_amount(key, entity, amount(key, entity) + 1)
  add(field, 1)
end

local function displace(entity, sender, reason)
  local text = beginning(ORDER, prefix(entity) .. 't', 'LIMIT', 0, 1)[1]
  redis.call('ZREM', ORDER, text)
  redis.call('HDEL', MESSAGES, text)
  add('telemetry', -1)
  set_amount(TELEMETRY, entity, amount(TELEMETRY, entity) - 1)
  report('displaced', entity, 0, 0, 1, reason)
  -- Who makes room for its own next message grows no younger by it.
  if entity ~= sender then
    forget_if_empty(entity)
  end
end

local function hold_telemetry(entity, message)
  if amount(TELEMETRY, entity) >= bounds.each then
    displace(entity, entity, 'the ring of its entity is full')
  else
    while total('telemetry') >= bounds.telemetry do
      displace(victim(TELEMETRY, entity), entity, 'there is too much telemetry')
    end
  end
  keep(TELEMETRY, 'telemetry', 't', entity, message)
  report('held', entity, 0, 0, 1)
end

local function hold_metadata(entity, message)
  while total('metadata') >= bounds.metadata do
    drop(victim(METADATA, entity), 'there is too much metadata')
  end
  keep(METADATA, 'metadata', 'm', entity, message)
  report('held', entity, 0, 1, 0)
end

local function let_go(entity)
  local record = held_registration(entity)
  if record then
    unlink(entity, record)
    redis.call('HDEL', REGISTRATIONS, entity)
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

-- Whether `entity` would be its own ancestor below `parent`, or they have no end.
local function goes_round(entity, parent)
  local above, found, i = { [parent] = true }, { parent }, 1
  while found[i] do
    local one = found[i]
    if one == entity or i > MOST_DEEP then
      return true
    end
    for _, record in ipairs({ held_registration(one) or '[null]', registered(one) or '[null]' }) do
      local another = parent_of(record)
      if another and not above[another] then
        above[another] = true
        found[#found + 1] = another
      end
    end
    i = i + 1
  end
  return false
end

local function topmost(entity)
  for _ = 0, MOST_DEEP do
    local record = registered(entity)
    local parent = record and parent_of(record)
    if not parent then
      break
    end
    entity = parent
  end
  return entity
end

local function tell(entity, record, messages)
  for _, value in ipairs({ 'release', entity, topmost(entity), record, #messages }) do
    reply[#reply + 1] = tostring(value)
  end
  for _, message in ipairs(messages) do
    reply[#reply + 1] = message
  end
end

local function release(entity, record)
  local registrations, metadata, telemetry, messages = take(entity)
  local before = registered(entity)
  report(before and 'updated' or 'registered', entity, 1, 0, 0)
  if registrations + metadata + telemetry > 0 then
    report('released', entity, registrations, metadata, telemetry)
  end
  if before and parent_of(before) then
    redis.call('ZREM', CHILDREN, prefix(parent_of(before)) .. entity)
  end
  if before and parent_of(before) ~= parent_of(record) then
    add('generation', 1)
  end
  redis.call('HSET', ENTITIES, entity, record)
  if parent_of(record) then
    redis.call('ZADD', CHILDREN, 0, prefix(parent_of(record)) .. entity)
  end
  return messages
end

-- Registers it, and every held descendant: parents before children. `message` comes last.
local function admit(entity, record, message)
  local family, records, met, i = { entity }, { record }, { [entity] = true }, 1
  while family[i] do
    local start = prefix(family[i])
    for _, member in ipairs(beginning(WAITING, start)) do
      local child = string.sub(member, #start + 16)
      if not met[child] then
        met[child] = true
        family[#family + 1], records[#records + 1] = child, held_registration(child)
      end
    end
    i = i + 1
  end
  for at, one in ipairs(family) do
    local messages = release(one, records[at])
    if message and at == 1 then
      messages[#messages + 1] = message
    end
    tell(one, records[at], messages)
  end
end

-- Runs `carry_out`, unless this request was carried out before. What it returns says what is
-- wrong, if anything is.
local function serve(carry_out)
  local time = redis.call('TIME')
  now_ms = math.max(total('now_ms'), time[1] * 1000 + math.floor(time[2] / 1000))
  local gate, request = ARGV[1], ARGV[2]
  local stored = redis.call('HGET', REPLIES, gate)
  if stored then
    local last, told = unpack(cmsgpack.unpack(stored))
    if last == request then
      return told
    end
  end
  -- It needs memory, and so comes before all other writes: a server that has none left refuses
  -- either all of them or none.
  redis.call('HSET', TOTALS, 'now_ms', now_ms)
  local auto = redis.call('HGET', TOTALS, 'auto')
  local wrong
  if auto and auto ~= bounds.auto then
    wrong = 'conflict'
  else
    redis.call('HSET', TOTALS, 'auto', bounds.auto)
    wrong = carry_out()
  end
  table.insert(reply, 1, tostring(total('generation')))
  table.insert(reply, 2, wrong or 'ok')
  redis.call('HSET', REPLIES, gate, cmsgpack.pack({ request, reply }))
  redis.call('ZADD', HEARD, now_ms, gate)
  local gone = redis.call('ZRANGEBYSCORE', HEARD, '-inf', now_ms - REMEMBERED_MS, 'LIMIT', 0, 10)
  if #gone > 0 then
    redis.call('HDEL', REPLIES, unpack(gone))
    redis.call('ZREM', HEARD, unpack(gone))
  end
  return reply
end
