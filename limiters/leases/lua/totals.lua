-- What all instances have done, counted once each: totals.py, in Lua.

local HOUR_MS = 3600000
local SEQS = 4294967296

local function doubles(packed)
  local values = { struct.unpack('<' .. string.rep('d', #packed / 8), packed) }
  values[#values] = nil -- where it ended
  return values
end

-- Counts what somebody told.
local function add_totals(told)
  if #told == 0 then
    return
  end
  local new, known = doubles(told), doubles(redis.call('GET', TOTALS) or '')
  for i = 1, math.max(#new, #known) do
    known[i] = (known[i] or 0) + (new[i] or 0)
  end
  redis.call('SET', TOTALS, struct.pack('<' .. string.rep('d', #known), unpack(known)))
end

local function last_of(name)
  return tonumber(redis.call('ZSCORE', HEARD, name) or 0) % SEQS
end

-- Somebody whose last request was number `seq` is not waited for any more.
local function give_up(name, seq, now_ms)
  local hour = math.floor(now_ms / HOUR_MS)
  local last = math.max(seq, last_of(name))
  redis.call('ZREMRANGEBYSCORE', HEARD, '-inf', '(' .. text((hour - 1) * SEQS))
  redis.call('ZADD', HEARD, text(hour * SEQS + last), name)
end

-- Whether this request came before, from somebody who was given up since.
local function knows(name, seq)
  return seq <= last_of(name)
end
