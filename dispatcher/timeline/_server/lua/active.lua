-- Returns the live leases of a consumer, with new tokens: a process that used the old
-- ones under its id is shut out. Comes after bucket.lua and give.lua.
--
-- ARGV   consumer, after which entry ("" for the first), limit
-- Reply  the server's time in microseconds, the last entry looked at ("" if that was all), the
--        ends of the leases, the leases

local consumer, after, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local from = after == '' and '[' .. held_as(consumer, '') or '(' .. after
local entries =
  redis.call('ZRANGEBYLEX', HELD, from, '(' .. consumer .. '\1', 'LIMIT', 0, limit)
local leases, ends, bytes, last = {}, {}, 0, ''

for i, entry in ipairs(entries) do
  if bytes >= MOST_BYTES then
    break
  end
  last = (i < #entries or #entries == limit) and entry or ''
  local id = string.sub(entry, #consumer + 2)
  local status, time = where_is(id)
  local state = state_of(redis.call('HGET', STATES, id))
  if status == IS_PROCESSING and is_held_by(consumer, state) then
    redis.call('HDEL', STATES, '') -- see bucket.lua: leases are returned also if memory is full
    state.token, state.version = next_tokens(1), state.version + 1
    redis.call('HSET', STATES, id, text_of(state))
    local message = redis.call('HGET', MESSAGES, id) or ''
    bytes = bytes + #message
    leases[#leases + 1] = told(id, state, message)
    ends[#ends + 1] = struct.pack('<d', time)
  end
end
return { NOW_US, last, table.concat(ends), table.concat(leases) }
