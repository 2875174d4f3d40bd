-- Counts messages by time, without looking at any of them. Comes after checked.lua.
--
-- KEYS   some of the sets waiting, leased and dead of a bucket, then the same of the next ...
-- ARGV   how many sets of each bucket; the edges of the ranges, in order, "<d" each; relative (1:
--        edges are counted from the server's time, or 0)
-- Reply  the server's time in microseconds; for each set of a bucket, of all buckets together: how
--        many are in each range up to now, then how many are in each range later, "<I4" each
--
-- A range has its first edge in it and its last one not. Edges are whole numbers, as times are.

local _, wrong = sizes_of(KEYS, { false })
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
local sets, zero = tonumber(ARGV[1]), ARGV[3] == '1' and now or 0
local edges, befores = {}, {}
for at = 1, #ARGV[2], 8 do
  local edge = zero + struct.unpack('<d', ARGV[2], at)
  edges[#edges + 1] = edge
  befores[#edges] = string.format('%.0f', edge - 1)
end
local ranges = #edges - 1
local totals = {}
for i = 1, sets * 2 * ranges do
  totals[i] = 0
end
local call = redis.call

-- Completes `found` for the edges between two, where there is little between them.
local function complete(key, found, first, last)
  if last - first < 2 then
    return
  end
  local middle = math.floor((first + last) / 2)
  if found[first] == found[last] then
    found[middle] = found[first]
  else
    found[middle] = call('ZCOUNT', key, '-inf', befores[middle])
  end
  complete(key, found, first, middle)
  complete(key, found, middle, last)
end

-- The number of entries of `key` before each edge.
local function found_before(key)
  local found = { call('ZCOUNT', key, '-inf', befores[1]) }
  local last = call('ZCOUNT', key, '-inf', befores[#edges])
  if last - found[1] < ranges / 4 then
    found[#edges] = last
    complete(key, found, 1, #edges)
  else
    for i = 2, #edges do
      found[i] = call('ZCOUNT', key, '-inf', befores[i])
    end
  end
  return found
end

-- The first range that does not end by now: earlier ranges are past.
local border = 1
for range = 1, ranges do
  if edges[range + 1] > now + 1 then
    break
  end
  border = range + 1
end

for i, key in ipairs(KEYS) do
  local found = found_before(key)
  local past = (i - 1) % sets * 2 * ranges
  local later = past + ranges
  for range = 1, ranges do
    local count = found[range + 1] - found[range]
    if count > 0 then
      local place = range < border and past + range or later + range
      totals[place] = totals[place] + count
    end
  end
  if border <= ranges and edges[border] <= now then
    local count = call('ZCOUNT', key, '-inf', now) - found[border]
    totals[past + border] = totals[past + border] + count
    totals[later + border] = totals[later + border] - count
  end
end
return { now_us, struct.pack('<' .. string.rep('I4', #totals), unpack(totals)) }
