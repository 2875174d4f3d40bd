-- Creates messages. Comes after bucket.lua.
--
-- ARGV   channel, bucket, owner, messages: one after the other (relative 0 or 1, time, length
--        of the id, length of the body with its kind; id; body), "<BdI2I4"
-- Reply  the server's time in microseconds, an answer for each
--
-- An id that exists, or is remembered as deleted, changes nothing: a call whose reply was lost
-- may be sent again.

local channel, bucket, owner, messages = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local before = head_of(WAITING)
local remembers = redis.call('EXISTS', DELETED) == 1
local start = string.char(#owner) .. owner
local answers, places, ids, at = {}, {}, {}, 1

-- Creates the new messages, and removes what is left of an older one with the same id that has
-- lost its body: otherwise there would be two.
local function place()
  if #ids > 0 then
    redis.call('ZREM', LEASED, unpack(ids))
    redis.call('ZREM', DEAD, unpack(ids))
    redis.call('HDEL', STATES, unpack(ids))
    redis.call('ZADD', WAITING, unpack(places))
    add('created', #ids)
    places, ids = {}, {}
  end
end

for _ = 1, #messages do
  if at > #messages then
    break
  end
  local relative, due, id_length, body_length, id
  relative, due, id_length, body_length, at = struct.unpack('<BdI2I4', messages, at)
  id, at = string.sub(messages, at, at + id_length - 1), at + id_length
  local body = string.sub(messages, at, at + body_length - 1)
  at = at + body_length
  if relative == 1 then
    due = due_in(due)
  end
  if remembers and is_remembered(id) then
    answers[#answers + 1] = answer(DUPLICATE, IS_DELETED)
  elseif redis.call('HSETNX', MESSAGES, id, start .. body) == 1 then
    places[#places + 1], places[#places + 2] = due, id
    ids[#ids + 1] = id
    answers[#answers + 1] = struct.pack('<BBdI4I4', DONE, 0, due, 1, 0)
  else
    -- A message created twice in this call is created only below.
    place()
    local status, time = where_is(id)
    local state = state_of(redis.call('HGET', STATES, id))
    answers[#answers + 1] = answer(DUPLICATE, status, time, state)
  end
end
place()
tell_if_earlier(before, channel, bucket)
return { NOW_US, table.concat(answers) }
