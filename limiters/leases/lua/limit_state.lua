-- How one limit is stored: _coordinator/state.py in Lua. Constants and the fields of what is packed
-- come from _format.py. Keys, of one slot but for the last:
--   KEYS[1]  hash, the limit: `header` (packed, with the checksum of all but the records);
--            `server`, `nonce`, `cause`; `ledger`, `returning` (packed pairs); `queue` (who waits for
--            a permit); "=" + instance -> record (packed, with its checksum)
--   KEYS[2]  hash: "=" + instance -> what came along with its last grant, packed pairs of which
--            the first is (born, seq) of its record, with their checksum. If it is lost, the grant
--            counts as spent.
--   KEYS[3]  hash, for people: "=" + instance -> label; `totals` (packed). It may be lost.
--   KEYS[4]  the limit of the first format. A string occupies it, so that a process of that format
--            fails; if it is a hash, this one fails.
--   KEYS[5]  hash, the registry of the server: see limit_registry.lua. Not given in a cluster.
--
-- A call reads first and writes last, in `save`, so that one that fails has written nothing. A
-- server without memory refuses a script whose first write needs some, and lets one go on that has
-- written something, however little: either all writes are refused or none. A limit that is there
-- begins with a write that needs no memory, so that a full server can be emptied under it: a call
-- adds one instance at most, and those that are silent are removed. A new limit is refused.
--
-- What holds between two calls: checksums fit; the pool, what instances hold and `returning` sum to
-- UNITS; the header counts the records. Where that is not so, everything is forgotten (see
-- certainty). A record is compared with its checksum before what it holds goes anywhere.
--
-- Nothing relies on the order in which a hash is listed. Times are whole milliseconds.

local OCCUPIED = 'kept by format ' .. FORMAT
local RECORD_BYTE = byte(RECORD_PREFIX)

-- The fields of the limit's hash that are no records.
local TEXTS = {
  header = true, server = true, nonce = true, cause = true, ledger = true, returning = true,
  queue = true,
}

local stored = {} -- the strings of the limit's hash, as they were read
local people = {} -- what of KEYS[3] was read, and what is to be written
local registry -- what the server knows of all limits; nil if there is none
local limit -- the limit; nil if there is none
local limit_name -- as the registry calls it
local old_is_free -- whether nothing occupies KEYS[4]

local records = {
  own = nil, -- the name of the instance that calls, as a field
  own_text = nil, -- its record as it was read
  listed = nil, -- the names and records of all, in turn; nil as long as nobody needs them
  removed = {}, -- names of those that were given up, and of fields that nothing here has written
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

-- Whether people may see a limit divided so.
local function is_divisible(t)
  return t.capacity / t.factor - FLOAT_ERROR <= MAX_PARTITIONS
end

-- The checksum of a header and of the texts beside it, but for the number of the format: so a header
-- of this format is known as one even if that number is damaged.
local function header_check(packed, texts)
  local parts = {
    sub(packed, 9), texts.server, texts.nonce, texts.cause, texts.ledger, texts.returning,
    texts.queue,
  }
  return check('header', table.concat(parts, '\0'))
end

-- The packed numbers of the header that was read; nil if it is damaged, or a text beside it.
local function whole_header()
  local header = stored.header
  if #header < 8 + CHECK_LENGTH or not (stored.server and stored.nonce and stored.cause
    and stored.ledger and stored.returning and stored.queue) then
    return nil
  end
  local packed = sub(header, 1, -CHECK_LENGTH - 1)
  return header_check(packed, stored) == sub(header, -CHECK_LENGTH) and packed or nil
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
  stored.is_there = header and true or redis.call('EXISTS', LIMIT) == 1
  if not header then
    return nil, stored.is_there
  end
  local packed = whole_header()
  if not packed and #header >= 8 then
    local format = struct.unpack('<d', header)
    if format ~= FORMAT and format > 0 and format <= MAX_FORMAT and format % 1 == 0 then
      return nil, false, format
    end
  end
  local one = read_header(packed)
  if not one or one.format ~= FORMAT or not is_divisible(one) then
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

local function load_registry()
  if REGISTRY then
    registry = stored_registry(REGISTRY, RECORD_PREFIX .. limit_name)
  end
end

-- What is stored of the calling instance; nil if nothing is. And whether it cannot be read.
local function load_own_record()
  if records.forgotten or records.removed[records.own] or not records.own_text then
    return nil
  end
  local record = read_record(unsealed(records.own, records.own_text))
  return record, record == nil
end

-- What came along with an instance's last grant; an empty list if nothing did, or if it is lost.
local function given_of(record)
  if not record.given then
    record.given = {}
    if record.granted > 0 then
      local text = redis.call('HGET', GRANTS, records.own)
      local given = pairs_in(unsealed(records.own, text)) or {}
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
  return min(limit.capacity, max(MIN_CAPACITY, limit.ramp_from + risen))
end

-- The most that any spending that counts may have been based on.
local function most_in_force()
  return max(in_force(), limit.now < limit.peak_until and limit.peak or 0)
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
  if registry then
    store_registry(REGISTRY, RECORD_PREFIX .. limit_name, registry)
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
  local sums, known = {}, floats_in(people.stored_totals) or {}
  for i = 1, max(#added, min(#known, MAX_TOTALS)) do
    sums[i] = (added[i] or 0) + (known[i] or 0)
  end
  people.totals = packed(sums)
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
    local text = packed({ record.born, record.seq }) .. packed(record.given)
    redis.call('HSET', GRANTS, records.own, sealed(records.own, text))
  elseif record.granted == 0 and record.was_granted then
    redis.call('HDEL', GRANTS, records.own)
  end
end

-- Writes what has changed; `record` is that of the calling instance, if it has one.
local function save(record)
  if stored.is_there then
    redis.call('HDEL', LIMIT, '') -- needs no memory: see above
  end
  if old_is_free then
    redis.call('SET', OLD, OCCUPIED)
  end
  limit.format = FORMAT
  local new = {
    server = limit.server,
    nonce = limit.nonce,
    cause = limit.cause,
    ledger = limit.ledger and packed(limit.ledger) or stored.ledger,
    returning = packed(limit.returning),
    queue = write_queue(limit.queue),
  }
  local header = write_header(limit)
  new.header = header .. header_check(header, new)
  local fields = { 'header', new.header }
  local start = records.forgotten
  for field, text in pairs(new) do
    if field ~= 'header' and (start or text ~= stored[field]) then
      fields[#fields + 1], fields[#fields + 2] = field, text
    end
  end
  if record then
    local text = sealed(records.own, write_record(record))
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
    for _, key in ipairs({ LIMIT, OLD }) do
      redis.call('PEXPIRE', key, string.format('%.0f', left))
    end
  elseif limit.was_deleted then
    redis.call('PERSIST', LIMIT)
    redis.call('PERSIST', OLD)
  end
  save_people()
  save_grant(record)
  save_registry()
end
