-- Serves one request of one instance of a limit, exactly as Coordinator.sync in coordinator.py.
-- It comes after ranges.lua, portion.lua, fair_share.lua, state.lua (which says what is stored),
-- pool.lua, members.lua and totals.lua, each of which stands for a part of it.
--
-- KEYS   limit, members, asks, going, dear, coming, spent, totals, heard
-- ARGV   instance, seq, capacity, factor, period_ms, lease_ms, version, held, until_ms, released,
--        history (doubles: age_ms, cost, ...), need, gathering, waited_ms, weight, interval_ms,
--        spent, reserved, label, leaving (0 or 1), born_ms, totals (doubles)
-- Reply  the fields of messages.Reply, in order: numbers as text, sets as "0-4,7", the history
--        as "age_ms:cost,..."; then the server's version. An error UNSUPPORTED, and nothing
--        written, on a server older than 6.2.
--
-- What holds between two calls: free, condemned and what the members hold are disjoint; free and
-- held make up all partitions, condemned and held those beyond them; all that was spent of
-- the pool in the last period is in `spent`; and each member is in `going`.

local MOST_FOLDED = 50
local HAND_OVER_MS = 3
local AT_ONCE_MS = 50
local ASKS_PER_MS = 10
local STARVED_MS = 2000

local request = {
  instance = ARGV[1],
  seq = tonumber(ARGV[2]),
  capacity = tonumber(ARGV[3]),
  factor = tonumber(ARGV[4]),
  period_ms = tonumber(ARGV[5]),
  lease_ms = tonumber(ARGV[6]),
  version = tonumber(ARGV[7]),
  until_ms = tonumber(ARGV[9]),
  need = tonumber(ARGV[12]),
  gathering = tonumber(ARGV[13]),
  waited_ms = tonumber(ARGV[14]),
  weight = tonumber(ARGV[15]),
  interval_ms = tonumber(ARGV[16]),
  spent = tonumber(ARGV[17]),
  reserved = tonumber(ARGV[18]),
  label = ARGV[19],
  leaving = ARGV[20] == '1',
  born_ms = tonumber(ARGV[21]),
  totals = ARGV[22],
}

local created, member

-- What is known, and whether it still counts.

local function follow_request()
  follow_terms(limit, request.capacity, request.factor, request.period_ms, request.lease_ms,
    math.max(1, request.version))
  set_ramp(limit, 0, 0, 0)
end

local function look_at_the_clock(now_ms, server)
  if created then
    limit = {}
    follow_request()
    unsure(limit, now_ms, server)
  elseif server ~= limit.server or now_ms < limit.now_ms - limit.lease_ms then
    unsure(limit, now_ms, server)
  end
  limit.now_ms = math.max(limit.now_ms, now_ms)
  if limit.now_ms < limit.quarantine_ms and request.version > limit.version then
    follow_request()
    unsure(limit, limit.now_ms, server)
  end
end

local function fold()
  local gone = redis.call('ZRANGEBYSCORE', GOING, '-inf', limit.now_ms, 'LIMIT', 0, MOST_FOLDED)
  if #gone == 0 then
    return
  end
  for _, name in ipairs(gone) do
    local one = load_member(name)
    take_back(one.held)
    give_up(name, one.seq, limit.now_ms)
  end
  redis.call('HDEL', MEMBERS, unpack(gone))
  redis.call('HDEL', ASKS, unpack(gone))
  for _, key in ipairs({ GOING, DEAR, COMING }) do
    redis.call('ZREM', key, unpack(gone))
  end
end

-- It never heard of what this one was granted: that went to one of its old requests, which came
-- late, when it had been given up. So it has not spent any of it.
local function dismiss(ghost)
  take_back(ghost.held)
  remember(ghost.given)
end

local function meet(known)
  member = { held = EMPTY, given = {}, label = '' }
  for _, field in ipairs(NUMBERS) do
    member[field] = 0
  end
  member.seq, member.weight, member.born_ms = request.seq, 1, limit.now_ms
  member.evicted = known and known.evicted or 0
  member.seen_ms, member.gone_ms = limit.now_ms, limit.now_ms + gone_after_ms(limit)
  -- Who shows a lease that has not run out keeps it while nothing is known.
  if limit.now_ms < math.min(limit.quarantine_ms, request.until_ms)
    and request.factor == limit.factor then
    member.held = claim(parse(ARGV[8]))
  end
end

-- What it was told.

local function hear()
  local released = common(parse(ARGV[10]), member.held)
  if #released > 0 then
    member.held = without(member.held, released)
    take_back(released)
    remember(aged(ARGV[11]))
  end
  member.seq = request.seq
  member.given = {}
  member.weight = request.weight
  member.spent = request.spent
  member.reserved = request.reserved
  member.label = request.label
  local idle = request.leaving or member.evicted == 1
  member.need = idle and 0 or request.need
  member.gathering = idle and 0 or request.gathering
  member.wanted = math.min(partitions_of(member.need, limit.factor), limit.partitions)
  save_ask(request.instance, member, request.interval_ms)
end

-- What it is told.

-- Whose dear operation it is the turn of, and since when it is in line.
local function admitted()
  local first = redis.call('ZRANGE', DEAR, 0, 0, 'WITHSCORES')
  return first[1], tonumber(first[2])
end

local function set_aside(gathering)
  local wanted = partitions_of(gathering, limit.factor)
  return math.min(wanted, full), wanted > full
end

local function reckon_shares()
  local age_ms = limit.now_ms - limit.shares_ms
  local fresh_ms = math.floor(redis.call('HLEN', ASKS) / ASKS_PER_MS)
  if limit.shares_ms >= 0 and age_ms < fresh_ms then
    return
  end
  limit.shares_ms = limit.now_ms
  local first, first_at = admitted(), nil
  local asks = { wanted = {}, weight = {}, credit = {}, soon = {} }
  local needs = 0
  local stored = redis.call('HGETALL', ASKS)
  for i = 1, #stored, 2 do
    local need, wanted, weight, credit, lacks, seen_ms, interval_ms =
      struct.unpack(ASK, stored[i + 1])
    local at = (i + 1) / 2
    needs = needs + need
    asks.wanted[at], asks.weight[at] = wanted, weight
    asks.credit[at] = credit_after(credit, lacks, (limit.now_ms - seen_ms) / 1000)
    asks.soon[at] = credit_after(asks.credit[at], lacks, interval_ms / 1000)
    if stored[i] == first then
      first_at = at
    end
  end
  limit.needs = needs / limit.factor
  local rest_full, rest_remainder = full, remainder
  limit.fair_level = water_level(asks, full + remainder)
  if first then
    local one = first == request.instance and member or load_member(first)
    local aside, all_of_it = set_aside(one.gathering)
    rest_full = full - aside
    rest_remainder = all_of_it and 0 or remainder
    if first_at then
      for _, list in pairs(asks) do
        table.remove(list, first_at)
      end
    end
  end
  local shares = share_out(asks, rest_full, rest_remainder)
  limit.level, limit.extra = shares.level, shares.extra
  limit.keep, limit.last_level = shares.keep, shares.last
end

local function is_dear()
  local share = math.min(member.wanted, member.weight * limit.fair_level)
  local wanted = member.gathering / limit.factor - 1e-8
  if request.waited_ms < STARVED_MS + 2 * limit.period_ms then
    return wanted > math.ceil(share - 1e-8)
  end
  return wanted > math.floor(share + 1e-8)
end

-- Operations dearer than a share are let through one at a time, the oldest first.
-- Whether the line has changed, and with it the shares.
local function line_up()
  local in_line = redis.call('ZSCORE', DEAR, request.instance) ~= false
  local lines_up = member.gathering > 0 and member.gathering <= capacity
    and (in_line or is_dear())
  if lines_up == in_line then
    return false
  end
  if lines_up then
    local first, first_since = admitted()
    local since = limit.now_ms - request.waited_ms
    -- The one that gathers already is not sent back.
    if first then
      since = math.max(since, first_since + 1)
    end
    redis.call('ZADD', DEAR, since, request.instance)
  else
    redis.call('ZREM', DEAR, request.instance)
  end
  limit.shares_ms = -1
  return true
end

local function right_of_member()
  if admitted() == request.instance then
    local aside, all_of_it = set_aside(member.gathering)
    return { share = aside, full = aside, last = all_of_it }
  end
  local shares = {
    level = limit.level, extra = limit.extra, keep = limit.keep, last = limit.last_level,
  }
  local ask = {
    wanted = member.wanted, weight = member.weight, credit = member.credit,
    soon = credit_after(member.credit, member.lacks, request.interval_ms / 1000),
  }
  return entitled(shares, ask, units(member.held))
end

-- Who gets all it wants gets the last one only in place of a full one.
local function may_have_last(right, fulls)
  return right.last and (fulls < right.full or right.full < member.wanted)
end

local function grant(right)
  local fulls = full_ones(member.held)
  local granted = lowest(free_full(), right.full - fulls)
  if may_have_last(right, fulls + count(granted)) then
    granted = union(granted, common(limit.free, last))
  end
  member.given = take(granted)
  member.held = union(member.held, granted)
end

-- How soon it is to ask again, if that is not when it would anyway.
local function come_back(too_many, at_once, short, much)
  redis.call('ZREMRANGEBYSCORE', COMING, '-inf', limit.now_ms)
  redis.call('ZREM', COMING, request.instance)
  if too_many then
    local soon = at_once and AT_ONCE_MS or request.interval_ms
    redis.call('ZADD', COMING, limit.now_ms + soon + HAND_OVER_MS, request.instance)
    return -1
  end
  if limit.now_ms < limit.quarantine_ms then
    return limit.quarantine_ms - limit.now_ms
  end
  if much then
    -- Others may come at the same moment: they get their share two requests later.
    redis.call('ZADD', COMING, limit.now_ms + 2 * AT_ONCE_MS + HAND_OVER_MS, request.instance)
    return AT_ONCE_MS
  end
  if not short then
    return -1
  end
  local first = redis.call('ZRANGE', COMING, 0, 0, 'WITHSCORES')
  if not first[1] then
    return -1
  end
  redis.call('ZREM', COMING, first[1])
  return tonumber(first[2]) - limit.now_ms
end

local function answer(again)
  reckon_shares()
  if line_up() then
    reckon_shares()
  end
  local right = right_of_member()
  local had_none = #member.held == 0
  local certain = limit.now_ms >= limit.quarantine_ms
  if certain and not again and not request.leaving then
    grant(right)
  end
  local fulls, lasts = full_ones(member.held), has_last(member.held)
  local keep_last = may_have_last(right, fulls)
  local too_many = certain and (fulls > right.full or (lasts and not keep_last))
  local at_once = certain and (fulls > math.ceil(right.share - 1e-8)
    or count(member.held) > fulls + (lasts and 1 or 0))
  local short = fulls < right.full or (keep_last and not lasts)
  local much = had_none and 2 * count(member.held) > limit.partitions
  member.share = right.share
  member.lacks = right.share - units(member.held)
  if right.share >= member.wanted - ROUNDING then
    -- Who may have all it wants is owed nothing.
    member.credit, member.lacks = 0, 0
  end
  if not request.leaving then
    member.until_ms = limit.now_ms + limit.lease_ms
    member.gone_ms = limit.now_ms + gone_after_ms(limit)
  end
  local history = {}
  for i = 1, #member.given, 2 do
    local age_ms = math.max(0, limit.now_ms - member.given[i])
    history[#history + 1] = text(age_ms) .. ':' .. text(member.given[i + 1])
  end
  local back_ms = come_back(too_many, at_once, short, much)
  save_ask(request.instance, member, request.interval_ms)
  save_member(request.instance, member)
  return {
    0,
    created and 1 or 0,
    text_of(member.held),
    text(member.until_ms),
    text(limit.lease_ms),
    table.concat(history, ','),
    text(right.share),
    text(certain and right.full or math.max(right.full, fulls)),
    (keep_last or not certain) and 1 or 0,
    at_once and 1 or 0,
    text(back_ms),
    text(math.max(0, limit.quarantine_ms - limit.now_ms)),
    member.evicted,
    text(capacity),
    text(limit.capacity),
    text(limit.factor),
    text(limit.period_ms),
    text(limit.lease_ms),
    text(limit.version),
    redis.call('HLEN', MEMBERS),
    text(limit.needs),
    text(count(free_full())),
    text(member.born_ms),
  }
end

local function sync(now_ms, server)
  look_at_the_clock(now_ms, server)
  if follow() then
    limit.shares_ms = -1
  end
  fold()
  member = load_member(request.instance)
  if member and request.seq < member.seq then
    return { 1 }
  end
  local again = member ~= nil and request.seq == member.seq
  local heard_of_another = request.born_ms ~= 0 and member and request.born_ms ~= member.born_ms
  local counted = again
  if heard_of_another and not again then
    dismiss(member)
    meet(member)
    counted = knows(request.instance, request.seq)
  elseif not member then
    meet()
    counted = knows(request.instance, request.seq)
  end
  if not counted then
    add_totals(request.totals)
  end
  member.credit = credit_after(member.credit, member.lacks,
    (limit.now_ms - member.seen_ms) / 1000)
  member.seen_ms = limit.now_ms
  if not again then
    hear()
  end
  return answer(again)
end

local server, version = server_identity()
if too_old(version) then
  return redis.error_reply('UNSUPPORTED ' .. version)
end
local texts
limit, texts = load_limit()
created = not limit
local reply = sync(server_time(), server)
save_limit(limit, texts)
reply[#reply + 1] = version
return reply
