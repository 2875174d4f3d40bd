-- Looks at buckets without changing them.
--
-- KEYS   waiting, leased of a bucket, then of the next ...
-- Reply  the server's time in microseconds; for each bucket when the first of waiting and of
--        leased is due, and how many of both are due now, "<ddI4"

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now_us = server_time_us()
local now = math.floor(now_us / 1000)
local seen = {}

for i = 1, #KEYS, 2 do
  local heads, due = {}, 0
  for j = 0, 1 do
    local first = redis.call('ZRANGE', KEYS[i + j], 0, 0, 'WITHSCORES')
    heads[j] = tonumber(first[2]) or math.huge
    if heads[j] <= now then
      due = due + redis.call('ZCOUNT', KEYS[i + j], '-inf', now)
    end
  end
  seen[#seen + 1] = struct.pack('<ddI4', heads[0], heads[1], due)
end
return { now_us, table.concat(seen) }
