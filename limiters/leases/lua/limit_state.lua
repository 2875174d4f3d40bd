-- How one limit is stored: _coordinator/state.py in Lua. Constants and the fields of what is packed
-- come from _format.py. Keys, of one slot but for the last:
--   KEYS[1]  hash, the limit: `header` (packed, with the checksum of all but the records);
--            `server`, `nonce`, `cause`, `layout`; `ledger`, `returning`, `lots` (packed pairs of all
--            bounds, one behind the other); `queue` (who waits for a permit); "=" + instance -> record
--            (packed, with its checksum); "#" + number -> a block of names, in the order in which
--            instances have arrived (MessagePack, with its checksum)
--   KEYS[2]  hash: "=" + instance -> what came along with its last grant: packed (born, seq) of its
--            record and how many pairs of each bound follow, and these; with their checksum. If it
--            is lost, the grant counts as spent.
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
-- What holds between two calls: checksums fit; of each bound the pool, what instances hold and
-- `returning` sum to its whole; the header counts the records, and blocks name them. Where that is not so, everything is forgotten (see
-- certainty). A record is compared with its checksum before what it holds goes anywhere.
--
-- Nothing relies on the order in which a hash is listed. Times are whole milliseconds.

local OCCUPIED = 'kept by format ' .. FORMAT
local RECORD_BYTE = byte(RECORD_PREFIX)
state.RECORD_BYTE = RECORD_BYTE

-- The fields of the limit's hash that are no records.
local TEXTS = {
  header = true, server = true, nonce = true, cause = true, layout = true, ledger = true,
  returning = true, lots = true, queue = true,
}

state.TEXTS = TEXTS

local stored = {} -- the strings of the limit's hash, as they were read
local people = {} -- what of KEYS[3] was read, and what is to be written
local limit_name -- as the registry calls it
local old_is_free -- whether nothing occupies KEYS[4]

local records = {
  own = nil, -- the name of the instance that calls, as a field
  own_text = nil, -- its record as it was read
  listed = nil, -- the names and records of all, in turn; nil as long as nobody needs them
  changed = {}, -- the records that others have from now on, by name
  removed = {}, -- names of those that were given up, and of fields that nothing here has written
  forgotten = false, -- whether all that were stored count no more
}
state.records, state.people = records, people

-- The queue: for each a table of what it asks for, packed one after the other.

local WAITER = '<dddddI4'

local function read_queue(text, bounds)
  local queue, position = {}, 1
  for _ = 1, #text do
    if position > #text then
      break
    end
    local one = { ask = {} }
    local later, length
    later, one.turn, one.since, one.silent, one.fair, length, position =
      struct.unpack(WAITER, text, position)
    one.later = later ~= 0
    for b = 1, #bounds do
      one.ask[b], position = struct.unpack('<d', text, position)
      assert(is_finite(one.ask[b]))
    end
    one.name = sub(text, position, position + length - 1)
    position = position + length
    queue[#queue + 1] = one
    assert(is_finite(later) and is_finite(one.turn) and is_whole(one.since)
      and is_whole(one.silent) and is_whole(one.fair))
  end
  assert(position == #text + 1)
  return queue
end

local function write_queue(queue)
  local parts = {}
  for _, one in ipairs(queue) do
    parts[#parts + 1] = struct.pack(WAITER, one.later and 1 or 0, one.turn, one.since, one.silent,
      one.fair, #one.name)
    parts[#parts + 1] = ledger.packed(one.ask)
    parts[#parts + 1] = one.name
  end
  return table.concat(parts)
end

-- Whether people may see a limit divided so.
function state.is_divisible(t)
  return t.bounds[1].capacity / t.factor - FLOAT_ERROR <= MAX_PARTITIONS
end

-- Whether a bound can have these terms together.
function state.fits_bound(b)
  if b.slots then
    return b.capacity >= 1 and b.capacity <= UNITS and b.capacity % 1 == 0 and b.lasting >= b.period
  end
  return b.lasting >= ledger.counts_for(b.period)
end

-- The checksum of a header and of the texts beside it, but for the number of the format: so a header
-- of this format is known as one even if that number is damaged.
local function header_check(packed, texts)
  local parts = {
    sub(packed, 9), texts.server, texts.nonce, texts.cause, texts.layout, texts.ledger,
    texts.returning, texts.lots, texts.queue,
  }
  return check('header', table.concat(parts, '\0'))
end

-- The packed numbers of the header that was read; nil if it is damaged, or a text beside it.
local function whole_header()
  local header = stored.header
  if #header < 8 + CHECK_LENGTH or not (stored.server and stored.nonce and stored.cause
    and stored.layout and stored.ledger and stored.returning and stored.lots
    and stored.queue) then
    return nil
  end
  local packed = sub(header, 1, -CHECK_LENGTH - 1)
  return header_check(packed, stored) == sub(header, -CHECK_LENGTH) and packed or nil
end

-- Whether what is stored of a bound can be: then its lists are read.
local function completes_bound(b)
  b.entries, b.back = ledger.pairs_in(b.ledger), ledger.pairs_in(b.returning)
  local lots = ledger.pairs_in(b.lots)
  if not b.entries or not b.back or not lots or not state.fits_bound(b) then
    return false
  end
  b.counts_of_lots = {}
  for i = 1, #lots, 2 do
    b.counts_of_lots[lots[i]] = lots[i + 1]
  end
  if b.slots then
    return b.whole >= 1
  end
  return b.whole == UNITS and b.pool >= 0
end

-- The limit as it is stored; nil if there is none. And whether there is something that cannot be
-- read; or the number of another format.
function state.load_limit(name, instance)
  limit_name = name
  old_is_free = redis.call('TYPE', OLD).ok == 'none'
  records.own = RECORD_PREFIX .. (instance or '')
  local read = redis.call('HMGET', LIMIT, 'header', 'server', 'nonce', 'cause', 'layout', 'ledger',
    'returning', 'lots', 'queue', records.own)
  local header
  header, stored.server, stored.nonce, stored.cause = read[1], read[2], read[3], read[4]
  stored.layout, stored.ledger, stored.returning = read[5], read[6], read[7]
  stored.lots, stored.queue = read[8], read[9]
  stored.header, records.own_text = header, read[10] or nil
  records.own_stored = records.own_text
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
  local one = packed and read_header(stored.ledger, stored.returning, stored.lots, packed)
  if not one or one.format ~= FORMAT or #one.bounds == 0 or not state.is_divisible(one) then
    return nil, true
  end
  one.fair_units, one.fair_weights, one.level_units, one.level_weights = {}, {}, {}, {}
  one.fair_fillings, one.level_fillings = {}, {}
  for i, b in ipairs(one.bounds) do
    if not completes_bound(b) then
      return nil, true
    end
    one.fair_units[i], one.fair_weights[i] = b.fair_units, b.fair_weight
    one.level_units[i], one.level_weights[i] = b.level_units, b.level_weight
    one.fair_fillings[i] =
      { used = b.sum_fair_used, limited = b.sum_fair_limited, weight = b.sum_fair_weight }
    one.level_fillings[i] =
      { used = b.sum_level_used, limited = b.sum_level_limited, weight = b.sum_level_weight }
  end
  local ok, queue = pcall(read_queue, stored.queue, one.bounds)
  if not ok then
    return nil, true
  end
  one.server, one.nonce, one.cause = stored.server, stored.nonce, stored.cause
  one.layout = stored.layout
  one.queue = queue
  one.was_deleted = one.deleted
  return one
end

function state.load_registry()
  if REGISTRY then
    process = registry.stored(REGISTRY, RECORD_PREFIX .. limit_name)
  end
end

-- What is stored of the calling instance; nil if nothing is. And whether it cannot be read.
function state.load_own_record()
  if records.forgotten or records.removed[records.own] or not records.own_text then
    return nil
  end
  local record = read_record(unsealed(records.own, records.own_text), #limit.bounds)
  return record, record == nil
end

-- What came along with an instance's last grant, of each bound: an empty list if nothing did, or if
-- it is lost.
local function load_given(record)
  local granted = false
  for _, one in ipairs(record.bounds) do
    one.given = {}
    granted = granted or one.granted > 0
  end
  local text = granted and unsealed(records.own, redis.call('HGET', GRANTS, records.own))
  local start = 8 * (2 + #limit.bounds)
  local values = text and #text >= start and ledger.floats_in(text)
  if not values or values[1] ~= record.born or values[2] ~= record.seq then
    return
  end
  local lists, position = {}, start + 1
  for b = 1, #limit.bounds do
    local count = values[2 + b]
    if not (is_whole(count) and count >= 0 and count <= #text) then
      return
    end
    lists[b] = ledger.pairs_in(sub(text, position, position + 16 * count - 1))
    position = position + 16 * count
    if not lists[b] then
      return
    end
  end
  if position == #text + 1 then
    for b, one in ipairs(record.bounds) do
      one.given = one.granted > 0 and lists[b] or {}
    end
  end
end

function state.given_of(record, b)
  if not record.bounds[b].given then
    load_given(record)
  end
  return record.bounds[b].given
end

-- Whether something came along with the last grant of a bound, and it is not known what.
function state.bound_is_lost(record, b)
  return record.bounds[b].granted > 0 and #state.given_of(record, b) == 0
end

-- The same of any bound.
function state.given_is_lost(record)
  for b = 1, #record.bounds do
    if state.bound_is_lost(record, b) then
      return true
    end
  end
  return false
end

-- All names and records as stored, in turn, headers and texts among them.
function state.listed()
  if records.forgotten then
    return {}
  end
  if not records.listed then
    records.listed = redis.call('HGETALL', LIMIT)
  end
  return records.listed
end

-- Blocks of names: the order in which instances have arrived.

local blocks = {} -- those that were read, or have changed, by number: lists of names
local new_blocks = {} -- numbers of those that have changed
local blocks_count = true -- whether what is stored of them counts

function state.forget_blocks()
  blocks, new_blocks, blocks_count = {}, {}, false
end

-- The names in a text; nil if there is something else in it.
local function names_in(text)
  local ok, names = pcall(cmsgpack.unpack, text)
  if not ok or type(names) ~= 'table' or #names > BLOCK then
    return nil
  end
  for i = 1, #names do
    if type(names[i]) ~= 'string' then
      return nil
    end
  end
  return names
end

-- The names of a block: an empty list if there is none, or it cannot be read.
local function block(number)
  if not blocks[number] then
    local field = BLOCK_PREFIX .. number
    local text = blocks_count and unsealed(field, redis.call('HGET', LIMIT, field))
    blocks[number] = text and names_in(text) or {}
  end
  return blocks[number]
end

-- The instance that calls is the last one to arrive.
function state.add_to_order(place)
  local number = floor(place / BLOCK)
  block(number)[place % BLOCK + 1] = sub(records.own, #RECORD_PREFIX + 1)
  new_blocks[number] = true
end

-- Leaves out the instances at these places, which are in order. Only names are read, no records.
function state.leave_out(places)
  local kept, first, next_one = {}, floor(places[1] / BLOCK), 1
  for further = 0, MAX_INSTANCES / BLOCK do
    local number = first + further
    local names = block(number)
    if #names == 0 then
      break
    end
    for i = 1, #names do
      if number * BLOCK + i - 1 == places[next_one] then
        next_one = next_one + 1
      else
        kept[#kept + 1] = names[i]
      end
    end
    blocks[number], new_blocks[number] = {}, true
  end
  for i = 1, #kept, BLOCK do
    blocks[first + (i - 1) / BLOCK] = { unpack(kept, i, min(#kept, i + BLOCK - 1)) }
  end
end

-- Names and records of the instances from `place` on, as they are stored: of at most so many, and of
-- one block.
function state.some_records(place, most)
  local all, first = block(floor(place / BLOCK)), place % BLOCK
  local names, fields = {}, {}
  for i = 1, #all do
    if i > first and i <= first + most then
      names[i - first], fields[i - first] = all[i], RECORD_PREFIX .. all[i]
    end
  end
  if #fields == 0 or records.forgotten then
    return names, {}
  end
  return names, redis.call('HMGET', LIMIT, unpack(fields))
end

-- Something may come back to a pool at this time.
function state.falls_due(at)
  limit.due, limit.next_due = min(limit.due, at), min(limit.next_due, at)
end

-- The next request begins another round of the division.
function state.clear_round()
  limit.visited, limit.on_permits = 0, 0
  limit.fair_fillings, limit.level_fillings = {}, {}
  for i, b in ipairs(limit.bounds) do
    limit.fair_fillings[i] = { used = 0, limited = 0, weight = 0 }
    limit.level_fillings[i] = { used = 0, limited = 0, weight = 0 }
    b.sum_needs, b.sum_shares, b.sum_aside, b.sum_satisfied = 0, 0, 0, 0
    b.sum_rights, b.sum_lacking, b.sum_unserved = 0, 0, 0
    b.sum_rest, b.sum_turns, b.sum_taken, b.sum_kept, b.sum_scaled = 0, 0, 0, 0, 0
    b.counts_of_lots = {}
  end
end

-- The capacity in force of a bound; of slots, a whole number.
function state.in_force(b)
  local capacity = b.capacity
  if b.ramp_rate > 0 then
    local risen = b.ramp_rate * max(0, limit.now - b.ramp_at)
    capacity = min(capacity, max(MIN_CAPACITY, b.ramp_from + risen))
  end
  return b.slots and max(1, floor(capacity)) or capacity
end

-- The most that any spending that counts may have been based on.
function state.most_in_force(b)
  return max(state.in_force(b), limit.now < b.peak_until and b.peak or 0)
end

-- The ledger of a bound's pool, which many calls do not change.
function state.ledger_of(b)
  b.is_open = true
  return b.entries
end

local wholes -- the units of each bound; nil until they are asked for

-- Follows the capacity in force: what one unit is worth by that; and how many slots there are. What
-- instances hold beyond these, they release.
function state.resize(b)
  local in_force = state.in_force(b)
  local whole = b.slots and floor(in_force) or UNITS
  b.pool = b.pool + whole - b.whole
  b.whole, b.worth, wholes = whole, b.slots and 1 or in_force / UNITS, nil
end

function state.resize_all()
  for _, b in ipairs(limit.bounds) do
    state.resize(b)
  end
end

-- The units of each bound. Each visit asks for them: the list is made once, and never changed.
function state.wholes()
  if not wholes then
    wholes = {}
    for i, b in ipairs(limit.bounds) do
      wholes[i] = b.whole
    end
  end
  return wholes
end

-- How long an entry of a bound counts after its stamp.
function state.counts_of(b)
  return ledger.counts_for(b.period)
end

-- For how long after its start a cost of a rate may be stamped.
function state.running_of(b)
  return b.slots and 0 or b.lasting - ledger.counts_for(b.period)
end

-- How long it takes until nothing is left of a lease under these terms.
function state.span_of(terms)
  local longest = 0
  for _, b in ipairs(terms.bounds) do
    longest = max(longest, b.lasting)
  end
  return terms.lease + longest
end

-- Writing, once, at the end.

local MOST_AT_ONCE = 1000

local function delete_fields(key, names)
  for i = 1, #names, MOST_AT_ONCE do
    redis.call('HDEL', key, unpack(names, i, min(#names, i + MOST_AT_ONCE - 1)))
  end
end

local function save_registry()
  if process then
    registry.store(REGISTRY, RECORD_PREFIX .. limit_name, process)
  end
end

-- What is known of totals, and of the label of the calling instance.
function state.load_people()
  local read = redis.call('HMGET', PEOPLE, 'totals', records.own)
  people.stored_totals, people.stored_label = read[1], read[2]
end

-- Counts what an instance reports.
function state.add_totals(added)
  if #added == 0 then
    return
  end
  local sums, known = {}, ledger.floats_in(people.stored_totals) or {}
  for i = 1, max(#added, min(#known, MAX_TOTALS)) do
    sums[i] = (added[i] or 0) + (known[i] or 0)
  end
  people.totals = ledger.packed(sums)
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
  if not record or not record.bounds[1].given then
    return
  end
  local counts, parts, granted = { record.born, record.seq }, { '' }, false
  for b, one in ipairs(record.bounds) do
    granted = granted or one.granted > 0
    counts[2 + b] = #one.given / 2
    parts[1 + b] = ledger.packed(one.given)
  end
  if granted and record.is_granted then
    parts[1] = ledger.packed(counts)
    redis.call('HSET', GRANTS, records.own, sealed(records.own, table.concat(parts)))
  elseif not granted and record.was_granted then
    redis.call('HDEL', GRANTS, records.own)
  end
end

-- The packed header, and the texts beside it.
local function written()
  limit.format = FORMAT
  for i, b in ipairs(limit.bounds) do
    b.ledger = b.is_open and ledger.packed(b.entries) or b.ledger
    b.returning = ledger.packed(b.back)
    b.fair_units, b.fair_weight = limit.fair_units[i], limit.fair_weights[i]
    b.level_units, b.level_weight = limit.level_units[i], limit.level_weights[i]
    local fair, level, lots = limit.fair_fillings[i], limit.level_fillings[i], {}
    b.sum_fair_used, b.sum_fair_limited, b.sum_fair_weight = fair.used, fair.limited, fair.weight
    b.sum_level_used, b.sum_level_limited, b.sum_level_weight =
      level.used, level.limited, level.weight
    for lot, count in pairs(b.counts_of_lots) do
      lots[#lots + 1], lots[#lots + 2] = lot, count
    end
    b.lots = ledger.packed(lots)
  end
  local header = write_header(limit)
  return header[4], {
    server = limit.server, nonce = limit.nonce, cause = limit.cause, layout = limit.layout,
    ledger = header[1], returning = header[2], lots = header[3], queue = write_queue(limit.queue),
  }
end

-- Writes what has changed; `record` is that of the calling instance, if it has one.
function state.save(record)
  if stored.is_there then
    redis.call('HDEL', LIMIT, '') -- needs no memory: see above
  end
  if old_is_free then
    redis.call('SET', OLD, OCCUPIED)
  end
  local header, new = written()
  new.header = header .. header_check(header, new)
  local fields = { 'header', new.header }
  local start = records.forgotten
  for field, text in pairs(new) do
    if field ~= 'header' and (start or text ~= stored[field]) then
      fields[#fields + 1], fields[#fields + 2] = field, text
    end
  end
  local emptied = {}
  for number in pairs(new_blocks) do
    local field = BLOCK_PREFIX .. number
    if #blocks[number] == 0 then
      emptied[#emptied + 1] = field
    else
      local text = cmsgpack.pack(blocks[number])
      fields[#fields + 1], fields[#fields + 2] = field, sealed(field, text)
    end
  end
  if record then
    local text = sealed(records.own, write_record(record))
    if start or text ~= records.own_stored or records.removed[records.own] then
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
      delete_fields(LIMIT, emptied)
    end
  end
  for name, text in pairs(start and {} or records.changed) do
    if not records.removed[name] and (name ~= records.own or not record) then
      fields[#fields + 1], fields[#fields + 2] = name, text
    end
  end
  for i = 1, #fields, MOST_AT_ONCE do
    redis.call('HSET', LIMIT, unpack(fields, i, min(#fields, i + MOST_AT_ONCE - 1)))
  end
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
