-- The first messages of buckets, by time, without changing or reading them. Comes after
-- checked.lua.
--
-- KEYS   waiting, leased, dead of a bucket, then of the next ...
-- ARGV   how many of each bucket and state at most, from, to (excluded), then the states that
--        are looked for: "new", "waiting", "lost", "processing", "dead"
-- Reply  the server's time in microseconds; of each the time, at which place its bucket is
--        among those asked, the length of its id, and the id, "<dI4I4"

local _, wrong = sizes_of(KEYS, { false })
if wrong then
  return wrong
end

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now_us = server_time_us()
local coming = math.floor(now_us / 1000) + 1 -- from here on it is not due yet
local limit, from, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local found = {}

-- The entries of `key` from `first` up to `last`, which is excluded.
local function add(bucket, key, first, last)
  if first >= last then
    return
  end
  local entries = redis.call(
    'ZRANGEBYSCORE', key, string.format('%.17g', first), '(' .. string.format('%.17g', last),
    'WITHSCORES', 'LIMIT', 0, limit
  )
  for i = 1, #entries, 2 do
    local numbers = struct.pack('<dI4I4', time_of(entries[i + 1]), bucket, #entries[i])
    found[#found + 1] = numbers .. entries[i]
  end
end

local past, future = math.min(to, coming), math.max(from, coming)
local places = {
  new = { 0, from, past },
  waiting = { 0, future, to },
  lost = { 1, from, past },
  processing = { 1, future, to },
  dead = { 2, from, to },
}

for bucket = 1, #KEYS, 3 do
  for i = 4, #ARGV do
    local place = places[ARGV[i]]
    add((bucket - 1) / 3, KEYS[bucket + place[1]], place[2], place[3])
  end
end
return { now_us, table.concat(found) }
