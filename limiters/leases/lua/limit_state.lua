-- How one limit is stored: _coordinator/state.py in Lua. Constants and the fields of what is packed
-- come from _format.py. Keys, of one slot but for the last:
--   KEYS[1]  hash, the limit: `header` (packed); `server`, `nonce`, `cause`; `ledger`, `returning`
--            (packed pairs); `queue` (who waits for a permit); "=" + instance -> record (packed)
--   KEYS[2]  hash: "=" + instance -> what came along with its last grant, packed pairs of which
--            the first is (born, seq) of its record. If it is lost, the grant counts as spent.
--   KEYS[3]  hash, for people: "=" + instance -> label; `totals` (packed). It may be lost.
--   KEYS[4]  the limit of the first format. A string occupies it, so that a process of that format
--            fails; if it is a hash, this one fails.
--   KEYS[5]  hash, the registry of the server: `header` (packed), `server`, "=" + name -> the time up
--            to which something of that limit may be out. Not given in a cluster.
--
-- A call reads first and writes last, in `save`, so that one that fails has written nothing. A
-- server without memory lets a script go on that has written something, however little: the first
-- write needs memory, so either all are refused or none.
--
-- What holds between two calls: the pool, what instances hold and `returning` sum to UNITS; the
-- header counts the records. Where that is not so, everything is forgotten (see certainty).
--
-- Nothing relies on the order in which a hash is listed. Times are whole milliseconds.

local LIMIT, GRANTS, PEOPLE, OLD, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local OCCUPIED = 'kept by format ' .. FORMAT
local RECORD_BYTE = byte(RECORD_PREFIX)

local stored = {} -- the strings of the limit's hash, as they were read
local people = {} -- what of KEYS[3] was read, and what is to be written
local registry -- what the server knows of all limits; nil if there is none
local registry_text, registry_until
local limit -- the limit; nil if there is none
local limit_name -- as the registry calls it
local old_is_free -- whether nothing occupies KEYS[4]

local records = {
  own = nil, -- the name of the instance that calls, as a field
  own_text = nil, -- its record as it was read
  listed = nil, -- the names and records of all, in turn; nil as long as nobody needs them
  removed = {}, -- names of those that were given up
  forgotten = false, -- whether all that were stored count no more
}

-- The queue: for each a table of what it asks for, packed one after the other.

local WAITER = '<ddddddI4'

local function read_queue(text)
  local queue, position = {}, 1
  for _ = 1, #text do
    if position > #text then
      break
    end
    local one = {}
    local later, length
    later, one.turn, one.since, one.ask, one.silent, one.fair, length, position =
      struct.unpack(WAITER, text, position)
    one.later = later ~= 0
    one.name = sub(text, position, position + length - 1)
    position = position + length
    queue[#queue + 1] = one
    assert(is_finite(later) and is_finite(one.turn) and is_whole(one.since) and is_finite(one.ask)
      and is_whole(one.silent) and is_finite(one.fair))
  end
  assert(position == #text + 1)
  return queue
end

local function write_queue(queue)
  local parts = {}
  for i, one in ipairs(queue) do
    parts[i] = struct.pack(WAITER, one.later and 1 or 0, one.turn, one.since, one.ask, one.silent,
      one.fair, #one.name) .. one.name
  end
  return table.concat(parts)
end

-- Whether the terms in a header can be those of a limit.
local function are_terms(t)
  return t.capacity > 0 and t.factor > 0 and t.period > 0 and t.lease > 0
end

-- The first key that keeps something else than a hash, if one does: a script that found that out only
-- as it writes would have written a part of what it has to.
local function foreign_key()
  for _, key in ipairs({ LIMIT, GRANTS, PEOPLE, REGISTRY }) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'hash' and kind ~= 'none' then
      return key
    end
  end
  return nil
end

-- The limit as it is stored; nil if there is none. And whether there is something that cannot be
-- read; or the number of another format.
local function load_limit(instance)
  old_is_free = redis.call('TYPE', OLD).ok == 'none'
  records.own = RECORD_PREFIX .. (instance or '')
  local read = redis.call('HMGET', LIMIT, 'header', 'server', 'nonce', 'cause', 'ledger',
    'returning', 'queue', records.own)
  local header
  header, stored.server, stored.nonce, stored.cause = read[1], read[2], read[3], read[4]
  stored.ledger, stored.returning, stored.queue = read[5], read[6], read[7]
  stored.header, records.own_text = header, read[8] or nil
  if not header then
    return nil, redis.call('EXISTS', LIMIT) == 1
  end
  if #header >= 8 then
    local format = struct.unpack('<d', header)
    if format ~= FORMAT and format > 0 and format <= MAX_WHOLE and format % 1 == 0 then
      return nil, false, format
    end
  end
  local one = read_header(header)
  if not one or one.format ~= FORMAT or not are_terms(one) or not stored.server or not stored.nonce
    or not stored.cause or not stored.queue then
    return nil, true
  end
  stored.entries, one.returning = pairs_in(stored.ledger), pairs_in(stored.returning)
  if not stored.entries or not one.returning then
    return nil, true
  end
  local ok, queue = pcall(read_queue, stored.queue)
  if not ok then
    return nil, true
  end
  one.server, one.nonce, one.cause = stored.server, stored.nonce, stored.cause
  one.queue = queue
  one.was_deleted = one.deleted
  return one
end

-- The pool's ledger, which many calls do not change.
local function ledger_of()
  if not limit.ledger then
    limit.ledger = stored.entries
  end
  return limit.ledger
end

local function load_registry(server)
  if not REGISTRY then
    return
  end
  local read = redis.call('HMGET', REGISTRY, 'header', 'server', RECORD_PREFIX .. limit_name)
  registry = read_registry(read[1])
  local names_until = tonumber(read[3] or NEVER)
  if not registry or registry.format ~= FORMAT or not read[2] or not is_whole(names_until) then
    registry = nil
    return
  end
  registry.server, registry.names_until = read[2], names_until
  registry_text, registry_until = read[1], registry.names_until
end

-- What a server process knows at first.
local function new_registry(server, since)
  registry = {
    format = FORMAT, server = server, since = since, now = NEVER, skew = 0, names_until = NEVER,
    is_new = true,
  }
  registry_until = NEVER
end

-- What is stored of the calling instance; nil if nothing is. And whether it cannot be read.
local function load_own_record()
  if records.forgotten or records.removed[records.own] or not records.own_text then
    return nil
  end
  local record = read_record(records.own_text)
  return record, record == nil
end

-- What came along with an instance's last grant; an empty list if nothing did, or if it is lost.
local function given_of(record)
  if not record.given then
    record.given = {}
    if record.granted > 0 then
      local text = redis.call('HGET', GRANTS, records.own)
      local given = pairs_in(text) or {}
      if given[1] == record.born and given[2] == record.seq then
        table.remove(given, 1)
        table.remove(given, 1)
        record.given = given
      end
    end
  end
  return record.given
end

-- Whether something came along with the last grant, and it is not known what.
local function given_is_lost(record)
  return record.granted > 0 and #given_of(record) == 0
end

-- All names and records as stored, in turn, headers and texts among them.
local function listed()
  if records.forgotten then
    return {}
  end
  if not records.listed then
    records.listed = redis.call('HGETALL', LIMIT)
  end
  return records.listed
end

-- The capacity in force.
local function in_force()
  if limit.ramp_rate <= 0 then
    return limit.capacity
  end
  local risen = limit.ramp_rate * max(0, limit.now - limit.ramp_at)
  return min(limit.capacity, limit.ramp_from + risen)
end

-- What one unit is worth.
local function worth_of_unit()
  return in_force() / UNITS
end

local function counts_of(terms)
  return counts_for(terms.period)
end

local function span_of(terms)
  return terms.lease + counts_for(terms.period)
end

-- Writing, once, at the end.

local MOST_AT_ONCE = 1000

local function delete_fields(key, names)
  for i = 1, #names, MOST_AT_ONCE do
    redis.call('HDEL', key, unpack(names, i, min(#names, i + MOST_AT_ONCE - 1)))
  end
end

local function save_registry()
  if not registry then
    return
  end
  local header = write_registry(registry)
  local fields = {}
  if header ~= registry_text then
    fields[1], fields[2] = 'header', header
  end
  if registry.is_new then
    fields[#fields + 1], fields[#fields + 2] = 'server', registry.server
  end
  if registry.names_until ~= registry_until then
    fields[#fields + 1] = RECORD_PREFIX .. limit_name
    fields[#fields + 1] = string.format('%.17g', registry.names_until)
  end
  if registry.is_new then
    redis.call('DEL', REGISTRY)
  end
  if #fields > 0 then
    redis.call('HSET', REGISTRY, unpack(fields))
  end
end

-- What is known of totals, and of the label of the calling instance.
local function load_people()
  local read = redis.call('HMGET', PEOPLE, 'totals', records.own)
  people.stored_totals, people.stored_label = read[1], read[2]
end

-- Counts what an instance reports.
local function add_totals(added)
  if #added == 0 then
    return
  end
  local new, known = doubles(added), floats_in(people.stored_totals) or {}
  for i = 1, max(#new, #known) do
    known[i] = (new[i] or 0) + (known[i] or 0)
  end
  people.totals = packed(known)
end

local function save_people()
  local fields = {}
  if people.totals then
    fields[1], fields[2] = 'totals', people.totals
  end
  if records.forgotten then
    local totals = redis.call('HGET', PEOPLE, 'totals')
    redis.call('DEL', GRANTS, PEOPLE)
    if totals and not people.reset and not people.totals then
      fields[1], fields[2] = 'totals', totals
    end
  end
  local again = records.forgotten or records.removed[records.own]
  if people.label and (again or people.label ~= people.stored_label) then
    fields[#fields + 1], fields[#fields + 2] = records.own, people.label
  end
  if #fields > 0 then
    redis.call('HSET', PEOPLE, unpack(fields))
  end
end

local function save_grant(record)
  if not record or not record.given then
    return
  end
  if record.granted > 0 and record.is_granted then
    local request = packed({ record.born, record.seq })
    redis.call('HSET', GRANTS, records.own, request .. packed(record.given))
  elseif record.granted == 0 and record.was_granted then
    redis.call('HDEL', GRANTS, records.own)
  end
end

-- Writes what has changed; `record` is that of the calling instance, if it has one.
local function save(record)
  if old_is_free then
    redis.call('SET', OLD, OCCUPIED)
  end
  limit.format = FORMAT
  local new = {
    header = write_header(limit),
    server = limit.server,
    nonce = limit.nonce,
    cause = limit.cause,
    ledger = limit.ledger and packed(limit.ledger) or stored.ledger,
    returning = packed(limit.returning),
    queue = write_queue(limit.queue),
  }
  local fields = { 'header', new.header }
  local start = records.forgotten
  for field, text in pairs(new) do
    if field ~= 'header' and (start or text ~= stored[field]) then
      fields[#fields + 1], fields[#fields + 2] = field, text
    end
  end
  if record then
    local text = write_record(record)
    if start or text ~= records.own_text or records.removed[records.own] then
      fields[#fields + 1], fields[#fields + 2] = records.own, text
    end
  end
  if start then
    redis.call('HSET', LIMIT, 'header', new.header)
    redis.call('DEL', LIMIT)
  else
    local gone = {}
    for name in pairs(records.removed) do
      gone[#gone + 1] = name
    end
    if #gone > 0 then
      redis.call('HSET', LIMIT, 'header', new.header)
      for _, key in ipairs({ LIMIT, GRANTS, PEOPLE }) do
        delete_fields(key, gone)
      end
    end
  end
  redis.call('HSET', LIMIT, unpack(fields))
  if limit.deleted then
    local left = max(0, limit.not_before - limit.now) + 2 * DEFAULT_SPAN
    redis.call('PEXPIRE', LIMIT, string.format('%.0f', left))
  elseif limit.was_deleted then
    redis.call('PERSIST', LIMIT)
  end
  save_people()
  save_grant(record)
  save_registry()
end
