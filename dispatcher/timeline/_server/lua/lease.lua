-- Gives a consumer messages that are due: new ones, and those whose lease has ended, in the order
-- in which they became due. Comes after bucket.lua, times.lua and give.lua.
--
-- ARGV   consumer, limit, lease_ms, most_attempts (0: any number), the latest
--        due time to lease, how many times of each set to return
-- Reply  the server's time in microseconds; the end of the leases; the first times left in waiting
--        and in leased; the leases; how many died of too many attempts; how many more are due
--        than the first times returned; how many had no body, and are dead
--
-- A message leased too often is dead, and counts towards the limit: so the work is bounded. Nothing
-- is written that needs memory before something was removed: a server without free memory can be
-- emptied.

local consumer, limit = ARGV[1], tonumber(ARGV[2])
local ends, most_attempts = FROM_NOW + tonumber(ARGV[3]), tonumber(ARGV[4])
local latest, known = math.min(NOW, tonumber(ARGV[5])), tonumber(ARGV[6])

-- The first ones of both sets together, by time.
local function due_messages()
  local range = { '-inf', latest, 'WITHSCORES', 'LIMIT', 0, limit }
  local lost = redis.call('ZRANGEBYSCORE', LEASED, unpack(range))
  local new = redis.call('ZRANGEBYSCORE', WAITING, unpack(range))
  local ids, dues, i, j = {}, {}, 1, 1
  for _ = 1, limit do
    if i > #lost and j > #new then
      break
    end
    if j > #new or (i <= #lost and time_of(lost[i + 1]) <= time_of(new[j + 1])) then
      ids[#ids + 1], i = lost[i], i + 2
    else
      ids[#ids + 1], dues[#ids + 1], j = new[j], time_of(new[j + 1]), j + 2
    end
  end
  return ids, dues
end

local ids, dues = due_messages()
local leases, given_up = {}, 0
local new_ids, old_holds, ended, states, holds, bodiless = {}, {}, {}, {}, {}, {}

if #ids > 0 then
  local stored = redis.call('HMGET', STATES, unpack(ids))
  local leased_until = redis.call('ZMSCORE', LEASED, unpack(ids))
  local given, bytes = {}, 0
  for i, id in ipairs(ids) do
    if bytes >= MOST_BYTES then
      break
    end
    if dues[i] then
      new_ids[#new_ids + 1] = id
    end
    if not (dues[i] and leased_until[i]) then -- otherwise it is leased, and stays so
      local state, message = state_of(stored[i]), redis.call('HGET', MESSAGES, id)
      if state.token > 0 then
        old_holds[#old_holds + 1] = held_as(state.consumer, id)
      end
      state.version, state.due = state.version + 1, dues[i] or state.due
      if not message then
        bodiless[#bodiless + 1], ended[#ended + 1] = id, id
        state.token, state.consumer = 0, BODY_LOST
      elseif most_attempts > 0 and state.attempts >= most_attempts then
        given_up = given_up + 1
        ended[#ended + 1] = id
        state.token, state.consumer = 0, 'leased ' .. state.attempts .. ' times'
      else
        state.attempts, state.consumer = state.attempts + 1, consumer
        bytes = bytes + #message
        given[#given + 1] = { id, state, message }
      end
      states[#states + 1], states[#states + 2] = id, state
    end
  end
  if #new_ids > 0 then
    redis.call('ZREM', WAITING, unpack(new_ids))
  end
  if #old_holds > 0 then
    redis.call('ZREM', HELD, unpack(old_holds))
  end
  if #ended > 0 then
    redis.call('ZREM', LEASED, unpack(ended))
    for _, id in ipairs(ended) do
      redis.call('ZADD', DEAD, NOW, id)
    end
    add('dead', #ended)
  end
  if #given > 0 then
    local token, places = next_tokens(#given), {}
    for i, one in ipairs(given) do
      one[2].token = token + i - 1
      places[2 * i - 1], places[2 * i] = ends, one[1]
      holds[2 * i - 1], holds[2 * i] = 0, held_as(consumer, one[1])
      leases[i] = told(unpack(one))
    end
    redis.call('ZADD', LEASED, unpack(places))
    redis.call('ZADD', HELD, unpack(holds))
  end
  for _, id in ipairs(bodiless) do
    adopt(id)
  end
  for i = 2, #states, 2 do
    states[i] = text_of(states[i])
  end
  if #states > 0 then
    redis.call('HSET', STATES, unpack(states))
  end
  if #bodiless > 0 then
    settle_totals()
  end
end
return {
  NOW_US, string.format('%.0f', ends), times_in(WAITING, known), times_in(LEASED, known),
  table.concat(leases), given_up,
  due_beyond(WAITING, known, NOW) + due_beyond(LEASED, known, NOW), #bodiless,
}
