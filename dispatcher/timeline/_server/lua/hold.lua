-- Extends and ends leases of a consumer. Comes after bucket.lua.
--
-- ARGV   channel, bucket, remember_ms, leases: one after the other (token, action, relative (0 or
--        1), time, length of the id, length of the reason; id; why it is dead), "<dBBdI4I2"
-- Reply  the server's time in microseconds, an answer for each
--
-- Valid only with the right token, and before the lease ends. The request that ended a lease may be
-- repeated, as its reply may have been lost: as long as nothing has changed since, the answer is
-- the same.

local EXTEND, RELEASE, UNTOUCHED, DELETE, BURY = 1, 2, 3, 4, 5

local channel, bucket, remember_ms, leases = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local before = head_of(WAITING)
local answers, ids, deeds, states, at = {}, {}, {}, {}, 1
local places, texts = {}, {} -- of those that are extended, written together

redis.call('HDEL', STATES, '') -- see bucket.lua: a server without free memory can be emptied

local actions = {}

actions[EXTEND] = function(id, state, time)
  state.ends = math.max(state.ends, time)
  state.version = state.version + 1
  places[#places + 1], places[#places + 2] = state.ends, id
  texts[#texts + 1], texts[#texts + 2] = id, text_of(state)
  return answer(DONE, 0, state.ends, state)
end

actions[RELEASE] = function(id, state, time)
  if time < NOW then
    return answer(IN_PAST, 0, NOW, state)
  end
  put_back(id, state, time, state.token)
  return answer(DONE, 0, time, state)
end

-- Released, and as if it had not been leased: the consumer has not begun.
actions[UNTOUCHED] = function(id, state, time)
  if time >= NOW then
    state.attempts = math.max(0, state.attempts - 1)
  end
  return actions[RELEASE](id, state, time)
end

actions[BURY] = function(id, state, _, why)
  give_up(id, state, why, state.token)
  return answer(DONE, 0, NOW, state)
end

actions[DELETE] = function(id, state)
  remove(id, state)
  return answer(DONE, 0, 0, state)
end

local repeatable = { [RELEASE] = WAITING, [UNTOUCHED] = WAITING, [BURY] = DEAD }

-- The answer to a repeated request that has ended the same lease before.
local function answer_again(id, deed, state)
  local set = state.token == -deed.token and repeatable[deed.action]
  local time = set and redis.call('ZSCORE', set, id)
  return time and answer(DONE, 0, time_of(time), state)
end

local function act(id, deed)
  local state = states[id]
  if not state or state.removed then
    if not state and redis.call('HEXISTS', MESSAGES, id) == 1 then
      return answer(LOST_IT)
    end
    return answer(deed.action == DELETE and GONE or NOT_FOUND)
  end
  if state.token ~= deed.token then
    return answer_again(id, deed, state) or answer(LOST_IT, 0, 0, state)
  end
  if not state.ends then
    return answer(LOST_IT, 0, 0, state) -- it is in no set until the bucket is repaired
  end
  if state.ends <= NOW then
    return answer(EXPIRED, 0, state.ends, state)
  end
  return actions[deed.action](id, state, deed.time, deed.why)
end

for _ = 1, #leases do
  if at > #leases then
    break
  end
  local token, action, relative, time, id_length, why_length
  token, action, relative, time, id_length, why_length, at =
    struct.unpack('<dBBdI4I2', leases, at)
  ids[#ids + 1] = string.sub(leases, at, at + id_length - 1)
  at = at + id_length
  deeds[#deeds + 1] = {
    token = token,
    action = action,
    time = relative == 1 and due_in(time) or time,
    why = string.sub(leases, at, at + why_length - 1),
  }
  at = at + why_length
end
local stored = redis.call('HMGET', STATES, unpack(ids))
local ends = redis.call('ZMSCORE', LEASED, unpack(ids))
for i, id in ipairs(ids) do
  if stored[i] and not states[id] then
    states[id] = state_of(stored[i])
    states[id].ends = time_of(ends[i])
  end
end
for i, id in ipairs(ids) do
  answers[i] = act(id, deeds[i])
end
if #places > 0 then
  redis.call('ZADD', LEASED, unpack(places))
  redis.call('HSET', STATES, unpack(texts))
end
finish_removing(remember_ms)
tell_if_earlier(before, channel, bucket)
return { NOW_US, table.concat(answers) }
