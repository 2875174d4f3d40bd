-- One bucket of a topic, how it is stored, and the answer for each message of a call. It
-- comes after checked.lua in every script that changes a bucket. KEYS, which share one hash tag:
--   waiting   sorted set: id -> when it is due; not leased since then
--   leased    sorted set: id -> when its lease ends or has ended
--   messages  hash: id -> owner's length, owner, kind of body, body; written once
--   states    hash: id -> version, attempts, due, token, consumer, or why it is dead; only once
--             something changed. A negative token is that of the lease that put it where it is
--   held      sorted set, all scores 0: consumer NUL id, of every lease, ended or not
--   dead      sorted set: id -> when it was given up
--   deleted   sorted set: id -> until when it is remembered
--   meta      hash: token (the last one), created, deleted, dead (how many
--             ever)
-- A message is in exactly one of waiting, leased and dead. Times are whole milliseconds of the
-- server's clock, the only one that counts. Tokens never go back: they follow the clock too.
--
-- A server that has no memory left refuses a script's first write if it needs some, and lets a
-- script go on that has written something. So either all is done or nothing.
--
-- No damage to a bucket stops its scripts. The parts of a state that cannot be read are
-- reset, a message without a body is dead; mend.lua does the rest.

local sizes, wrong = sizes_of(KEYS, { false, false, true, true, false, false, false, true })
if wrong then
  return wrong
end

local WAITING, LEASED, MESSAGES, STATES = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local HELD, DEAD, DELETED, META = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local MOST_BYTES = 1048576 -- of bodies that one script reads

local DONE, DUPLICATE, NOT_FOUND, NOT_OWNER, LEASED_BY_SOME, CONFLICT = 1, 2, 3, 4, 5, 6
local LOST_IT, EXPIRED, IN_PAST, GONE, NO_BODY = 7, 8, 9, 10, 11
local IS_NEW, IS_LOST, IS_WAITING, IS_PROCESSING, IS_DEAD, IS_DELETED = 1, 2, 3, 4, 5, 6

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Read once: before Redis 7.2 the clock advances during a script.
local NOW_US = server_time_us()
local NOW = math.floor(NOW_US / 1000)
local FROM_NOW = math.ceil(NOW_US / 1000) -- for durations: never too short

-- A message due now is not delayed to the next millisecond, and one due later is never early.
local function due_in(delay_ms)
  return delay_ms > 0 and FROM_NOW + delay_ms or NOW
end

local function state_of(stored)
  if stored and #stored >= 24 then
    local version, attempts, due, token, at = struct.unpack('<I4I4dd', stored)
    if
      version < 2147483648 and attempts < 2147483648
      and whole(due) and math.abs(due) <= LATEST and whole(token)
    then
      return {
        version = version,
        attempts = attempts,
        due = due,
        token = token,
        consumer = string.sub(stored, at),
        is_known = true,
      }
    end
  end
  return { version = 1, attempts = 0, due = 0, token = 0, consumer = '' }
end

local function text_of(state)
  local numbers = struct.pack('<I4I4dd', state.version, state.attempts, state.due, state.token)
  return numbers .. state.consumer
end

-- The owner in a stored message; another program may have stored nothing.
local function owner_of(stored)
  return string.sub(stored, 2, 1 + (string.byte(stored) or 0))
end

-- The reason of a dead message.
local function reason_of(state)
  return string.sub(state.consumer, 1, 1000)
end

local function is_held_by(consumer, state)
  return state.token > 0 and state.consumer == consumer
end

local function held_as(consumer, id)
  return consumer .. '\0' .. id
end

-- The state of a message, and when it began or ends.
local function where_is(id)
  local due = time_of(redis.call('ZSCORE', WAITING, id))
  if due then
    return due <= NOW and IS_NEW or IS_WAITING, due
  end
  local ends = time_of(redis.call('ZSCORE', LEASED, id))
  if ends then
    return ends <= NOW and IS_LOST or IS_PROCESSING, ends
  end
  return IS_DEAD, time_of(redis.call('ZSCORE', DEAD, id)) or 0
end

local function answer(code, status, time, state)
  local version, attempts = state and state.version or 0, state and state.attempts or 0
  return struct.pack('<BBdI4I4', code, status or 0, time or 0, version, attempts)
end

local function head_of(key)
  return time_of(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- Adds to a total; one that is no number is reset.
local function add(total, number)
  local reply = redis.pcall('HINCRBY', META, total, number)
  if type(reply) == 'table' then
    redis.call('HSET', META, total, number)
  end
end

-- Corrects the totals to fit the messages.
local function settle_totals()
  local deleted = natural(redis.call('HGET', META, 'deleted')) or 0
  local placed =
    redis.call('ZCARD', WAITING) + redis.call('ZCARD', LEASED) + redis.call('ZCARD', DEAD)
  redis.call('HSET', META, 'deleted', deleted, 'created', deleted + placed)
end

-- A message without a body has no owner, so that operators
-- see it and can delete it.
local BODY_LOST = 'its body was lost'

local function adopt(id)
  redis.call('HSET', MESSAGES, id, '\0')
end

-- Notifies sleeping consumers if a message is due earlier than those they have read.
local function tell_if_earlier(before, channel, bucket)
  local head = head_of(WAITING)
  if head < before then
    redis.call('PUBLISH', channel, bucket .. ' ' .. string.format('%.0f', head))
  end
end

-- `by` is the token of the lease whose holder ended it, so that it may repeat the request; or 0.
local function forget_lease(id, state, by)
  if state.token > 0 then
    redis.call('ZREM', HELD, held_as(state.consumer, id))
  end
  state.token, state.consumer = -by, ''
end

-- The message is not leased any more. `why` replaces the consumer, since there is none.
local function give_up(id, state, why, by)
  redis.call('ZREM', LEASED, id)
  forget_lease(id, state, by)
  state.version, state.consumer = state.version + 1, why
  redis.call('HSET', STATES, id, text_of(state))
  redis.call('ZADD', DEAD, NOW, id)
  add('dead', 1)
end

-- Makes a message without a lease due at another time.
local function put_back(id, state, due, by)
  redis.call('ZREM', LEASED, id)
  redis.call('ZREM', DEAD, id)
  forget_lease(id, state, by)
  state.version, state.due = state.version + 1, due
  redis.call('HSET', STATES, id, text_of(state))
  redis.call('ZADD', WAITING, due, id)
end

local removed, removed_holds = {}, {}

-- Removes a message and its state, after all messages of the call.
local function remove(id, state)
  removed[#removed + 1] = id
  if state.token > 0 then
    removed_holds[#removed_holds + 1] = held_as(state.consumer, id)
  end
  state.token, state.removed = 0, true
end

-- Remembers ids of deleted messages. They make room for themselves: for each new one
-- two whose time is up are removed.
local function finish_removing(remember_ms)
  if #removed == 0 then
    return
  end
  redis.call('HDEL', MESSAGES, unpack(removed))
  redis.call('HDEL', STATES, unpack(removed))
  redis.call('ZREM', WAITING, unpack(removed))
  redis.call('ZREM', LEASED, unpack(removed))
  redis.call('ZREM', DEAD, unpack(removed))
  if #removed_holds > 0 then
    redis.call('ZREM', HELD, unpack(removed_holds))
  end
  add('deleted', #removed)
  if remember_ms > 0 then
    local old = redis.call('ZRANGEBYSCORE', DELETED, '-inf', NOW, 'LIMIT', 0, 2 * #removed)
    if #old > 0 then
      redis.call('ZREM', DELETED, unpack(old))
    end
    for _, id in ipairs(removed) do
      redis.call('ZADD', DELETED, FROM_NOW + remember_ms, id)
    end
  end
end

local function is_remembered(id)
  local ends = time_of(redis.call('ZSCORE', DELETED, id))
  return ends and ends > NOW and ends <= NOW + LONGEST
end
