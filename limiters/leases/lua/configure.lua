-- Changes the capacity of a limit, exactly as Coordinator.set_capacity in coordinator.py.
-- It comes after ranges.lua and state.lua, which says what is stored.
--
-- KEYS   limit, members, asks, going, dear, coming, spent, totals, heard
-- ARGV   capacity, factor, period_ms, lease_ms, version, ramp (cost a millisecond; "" for none)
-- Reply  1; or an error UNSUPPORTED, and nothing written, on a server older than 6.2
--
-- The version grows, so that instances and servers that forgot know the newest terms. Only
-- another factor starts the limit over; otherwise the next request follows the new capacity.

local capacity, factor = tonumber(ARGV[1]), tonumber(ARGV[2])
local period_ms, lease_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local version, ramp = tonumber(ARGV[5]), tonumber(ARGV[6])

local function set_capacity(limit, now_ms, server)
  if not limit then
    limit = {}
    -- Newer than those that instances may bring back from before it was lost: there are
    -- fewer changes than milliseconds, and whoever sets it anew may know of none of them.
    local newer = math.max(version, now_ms) + 1
    follow_terms(limit, capacity, factor, period_ms, lease_ms, newer)
    set_ramp(limit, 0, 0, 0)
    unsure(limit, now_ms, server)
    return limit
  end
  limit.now_ms = math.max(limit.now_ms, now_ms)
  local before = capacity_of(limit)
  set_ramp(limit, before, limit.now_ms, ramp or 0)
  limit.capacity, limit.version = capacity, limit.version + 1
  if factor ~= limit.factor then
    limit.factor = factor
    set_ramp(limit, 0, 0, 0)
    unsure(limit, limit.now_ms, limit.server)
  end
  return limit
end

local server, server_version = server_identity()
if too_old(server_version) then
  return redis.error_reply('UNSUPPORTED ' .. server_version)
end
local limit, texts = load_limit()
save_limit(set_capacity(limit, server_time(), server), texts)
return 1
