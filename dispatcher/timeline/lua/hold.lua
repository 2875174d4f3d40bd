-- What a consumer may do with what it has leased. It comes after bucket.lua.
--
-- ARGV   channel, bucket, action ("extend", "release", "untouched", "delete" or "bury"), relative
--        (0 or 1), time, remember_ms, leases: one after the other (token, length of the id; id),
--        "<dI2"; why they are buried
-- Reply  the server's time in microseconds, an answer for each
--
-- Only the right token, and only before the lease ends. What a lease was ended by may be repeated,
-- as its reply may have been lost: as long as nothing has changed since, the answer is the same.

local channel, bucket, action = ARGV[1], ARGV[2], ARGV[3]
local time = ARGV[4] == '1' and due_in(tonumber(ARGV[5])) or tonumber(ARGV[5])
local remember_ms, leases, why = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local before = head_of(WAITING)
local answers, ids, tokens, states, at = {}, {}, {}, {}, 1
local places, texts = {}, {} -- of those that are extended, written together

redis.call('HDEL', STATES, '') -- see bucket.lua: whoever is full can be emptied

local actions = {}

function actions.extend(id, state)
  state.ends = math.max(state.ends, time)
  state.version = state.version + 1
  places[#places + 1], places[#places + 2] = state.ends, id
  texts[#texts + 1], texts[#texts + 2] = id, text_of(state)
  return answer(DONE, 0, state.ends, state)
end

function actions.release(id, state)
  if time < NOW then
    return answer(IN_PAST, 0, NOW, state)
  end
  put_back(id, state, time, state.token)
  return answer(DONE, 0, time, state)
end

-- Released, and as if it had not been leased: whoever had it has not begun.
function actions.untouched(id, state)
  if time >= NOW then
    state.attempts = math.max(0, state.attempts - 1)
  end
  return actions.release(id, state)
end

function actions.bury(id, state)
  give_up(id, state, why, state.token)
  return answer(DONE, 0, NOW, state)
end

function actions.delete(id, state)
  remove(id, state)
  return answer(DONE, 0, 0, state)
end

local repeatable = { release = WAITING, untouched = WAITING, bury = DEAD }

-- The answer to an action that the same lease was ended by before.
local function answer_again(id, token, state)
  local time = state.token == -token and repeatable[action]
    and redis.call('ZSCORE', repeatable[action], id)
  return time and answer(DONE, 0, tonumber(time), state)
end

local function act(id, token)
  local state = states[id]
  if not state or state.removed then
    if not state and redis.call('HEXISTS', MESSAGES, id) == 1 then
      return answer(LOST_IT)
    end
    return answer(action == 'delete' and GONE or NOT_FOUND)
  end
  if state.token ~= token then
    return answer_again(id, token, state) or answer(LOST_IT, 0, 0, state)
  end
  if state.ends <= NOW then
    return answer(EXPIRED, 0, state.ends, state)
  end
  return actions[action](id, state)
end

while at <= #leases do
  local token, id_length
  token, id_length, at = struct.unpack('<dI2', leases, at)
  tokens[#tokens + 1] = token
  ids[#ids + 1] = string.sub(leases, at, at + id_length - 1)
  at = at + id_length
end
local stored = redis.call('HMGET', STATES, unpack(ids))
local ends = redis.call('ZMSCORE', LEASED, unpack(ids))
for i, id in ipairs(ids) do
  if stored[i] and not states[id] then
    states[id] = state_of(stored[i])
    states[id].ends = tonumber(ends[i])
  end
end
for i, id in ipairs(ids) do
  answers[i] = act(id, tokens[i])
end
if #places > 0 then
  redis.call('ZADD', LEASED, unpack(places))
  redis.call('HSET', STATES, unpack(texts))
end
finish_removing(remember_ms)
tell_if_earlier(before, channel, bucket)
return { NOW_US, table.concat(answers) }
