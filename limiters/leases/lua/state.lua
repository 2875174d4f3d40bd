-- How one limit is stored, and the server that stores it. Its keys, which share one hash tag:
--   limit    hash: the terms, the pool's partitions, the shares; numbers as text, "%.17g"
--   members  hash: instance -> what is known of it, as text (see members.lua)
--   asks     hash: instance -> what it asks for, as doubles; only of who wants something
--   going    sorted set: instance -> when it is given up
--   dear     sorted set: instance -> since when its dear operation is in line
--   coming   sorted set: instance -> when it is expected to bring back what it has too much of
--   spent    string: the pool's history, as doubles: at, cost, at, cost, ...
--   totals   string: what all instances have done, as doubles, in the order of totals.py; it is
--            not lost when it is unknown who holds what
--   heard    sorted set: instance that was given up -> the hour of that * 2^32 + the number of
--            its last request
-- Times are whole milliseconds of the server's clock, the only one that counts.

local LIMIT, MEMBERS, ASKS = KEYS[1], KEYS[2], KEYS[3]
local GOING, DEAR, COMING, SPENT = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local TOTALS, HEARD = KEYS[8], KEYS[9]

local GUARD_MS = 6

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The server's run id, which changes with each start, and its version.
local function server_identity()
  local info = redis.call('INFO', 'server')
  return string.match(info, 'run_id:(%w+)'), string.match(info, 'redis_version:([%w.]+)')
end

-- Nothing is written by a server that may not run the rest.
local function too_old(version)
  local major, minor = string.match(version, '^(%d+)%.(%d+)')
  return tonumber(major) * 100 + tonumber(minor) < 602
end

local function text(number)
  return string.format('%.17g', number)
end

local TEXTS = { server = true, free = true, condemned = true }

-- The limit as it is stored, and its fields' texts; nil if there is none.
local function load_limit()
  local stored = redis.call('HGETALL', LIMIT)
  local limit, texts = {}, {}
  for i = 1, #stored, 2 do
    local field, value = stored[i], stored[i + 1]
    texts[field] = value
    limit[field] = TEXTS[field] and value or tonumber(value)
  end
  -- A server without memory lets a script go on that has written something, however little. So
  -- this, which needs memory, comes before all other writes: either all are refused or none.
  redis.call('HSET', LIMIT, 'now_ms', texts.now_ms or 0)
  if not limit.server then
    return nil, {}
  end
  limit.free, limit.condemned = parse(limit.free), parse(limit.condemned)
  return limit, texts
end

-- Writes what differs from `texts`.
local function save_limit(limit, texts)
  local changed = {}
  for field, value in pairs(limit) do
    if type(value) == 'table' then
      value = text_of(value)
    elseif type(value) == 'number' then
      value = text(value)
    end
    if texts[field] ~= value then
      changed[#changed + 1] = field
      changed[#changed + 1] = value
    end
  end
  if #changed > 0 then
    redis.call('HSET', LIMIT, unpack(changed))
  end
end

local function follow_terms(limit, capacity, factor, period_ms, lease_ms, version)
  limit.capacity, limit.factor = capacity, factor
  limit.period_ms, limit.lease_ms, limit.version = period_ms, lease_ms, version
end

local function set_ramp(limit, start, start_ms, per_ms)
  limit.ramp_start, limit.ramp_start_ms, limit.ramp_per_ms = start, start_ms, per_ms
end

-- The capacity in force.
local function capacity_of(limit)
  if limit.ramp_per_ms <= 0 then
    return limit.capacity
  end
  -- Another server's clock may be behind.
  local risen = limit.ramp_per_ms * math.max(0, limit.now_ms - limit.ramp_start_ms)
  return math.min(limit.capacity, limit.ramp_start + risen)
end

-- For how long what was spent counts.
local function counts_ms(limit)
  return limit.period_ms + math.max(GUARD_MS, math.ceil(limit.period_ms * GUARD_MS / 1000))
end

local function gone_after_ms(limit)
  return limit.lease_ms + counts_ms(limit)
end

-- It is not known who holds what: nothing is granted until all that may be out there has run out.
local function unsure(limit, now_ms, server)
  limit.server, limit.now_ms = server, now_ms
  limit.quarantine_ms = now_ms + gone_after_ms(limit)
  limit.partitions, limit.free, limit.condemned = 0, EMPTY, EMPTY
  limit.level, limit.extra = math.huge, math.huge
  limit.keep, limit.last_level = math.huge, math.huge
  limit.shares_ms, limit.fair_level, limit.needs = -1, math.huge, 0
  redis.call('DEL', MEMBERS, ASKS, GOING, DEAR, COMING, SPENT)
end
