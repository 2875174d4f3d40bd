-- Gives leases and encodes them. Comes after bucket.lua.
--
-- A lease is encoded as (due, token, attempt, version, length of the id, length of what is stored;
-- id; what is stored), "<ddI4I4I4I4".

local function next_tokens(count)
  local last = natural(redis.call('HGET', META, 'token')) or 0
  local first = math.max(last, NOW_US) + 1
  redis.call('HSET', META, 'token', string.format('%.0f', first + count - 1))
  return first
end

local function told(id, state, stored)
  local numbers = struct.pack(
    '<ddI4I4I4I4', state.due, state.token, state.attempts, state.version, #id, #stored
  )
  return numbers .. id .. stored
end
