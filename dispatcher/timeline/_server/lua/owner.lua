-- Reads, moves and deletes messages for the group that owns them. Comes after bucket.lua.
--
-- ARGV   channel, bucket, owner, action ("get", "move" or "delete"), remember_ms, messages: one
--        after the other (expected version or 0, relative 0 or 1, time, length of the id; id),
--        "<I4BdI4"
-- Reply  the server's time in microseconds; an answer for each, or for the first ones, if all
--        together are too long for one reply; for "get" what is stored of each that may be
--        read and why it is dead, after the lengths of both, "<I4I2"
--
-- While a lease lives, not even the owner may change the message.

local channel, bucket, owner, action = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local remember_ms, messages = tonumber(ARGV[5]), ARGV[6]
local before = head_of(WAITING)
local answers, bodies, bytes, at = {}, {}, 0, 1
local states = {} -- of the messages so far, for one that is named twice

local actions = {}

function actions.get(id, stored, state, status, time)
  local why = status == IS_DEAD and reason_of(state) or ''
  bodies[#bodies + 1] = struct.pack('<I4I2', #stored, #why) .. stored .. why
  return answer(DONE, status, time, state)
end

function actions.move(id, stored, state, status, time, due)
  if due < NOW then
    return answer(IN_PAST, 0, NOW, state)
  end
  if #stored <= 1 + #owner then
    return answer(NO_BODY)
  end
  if status == IS_DEAD then
    state.attempts = 0
  end
  put_back(id, state, due, 0)
  return answer(DONE, 0, due, state)
end

function actions.delete(id, stored, state)
  remove(id, state)
  return answer(DONE, 0, 0, state)
end

local function act(id, version, due)
  local stored = redis.call('HGET', MESSAGES, id)
  if states[id] and states[id].removed then
    return answer(remember_ms > 0 and GONE or NOT_FOUND)
  end
  if not stored then
    return answer(action == 'delete' and is_remembered(id) and GONE or NOT_FOUND)
  end
  bytes = bytes + #stored
  if owner_of(stored) ~= owner then
    return answer(NOT_OWNER)
  end
  local status, time = where_is(id)
  local state = states[id] or state_of(redis.call('HGET', STATES, id))
  states[id] = state
  if status == IS_PROCESSING then
    return answer(LEASED_BY_SOME, status, time, state)
  end
  if version > 0 and version ~= state.version then
    return answer(CONFLICT, status, time, state)
  end
  return actions[action](id, stored, state, status, time, due)
end

for _ = 1, #messages do
  if at > #messages or bytes >= MOST_BYTES then
    break
  end
  local version, relative, due, id_length
  version, relative, due, id_length, at = struct.unpack('<I4BdI4', messages, at)
  local id = string.sub(messages, at, at + id_length - 1)
  at = at + id_length
  if relative == 1 then
    due = due_in(due)
  end
  answers[#answers + 1] = act(id, version, due)
end
finish_removing(remember_ms)
tell_if_earlier(before, channel, bucket)
return { NOW_US, table.concat(answers), table.concat(bodies) }
