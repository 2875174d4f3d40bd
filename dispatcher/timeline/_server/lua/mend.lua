-- Repairs a bucket whose parts do not fit together any more, because something was evicted, deleted
-- or damaged: a portion with each run. Comes after bucket.lua.
--
-- ARGV   which part to examine, "" to begin with; the cursor; about how many messages to examine
-- Reply  the server's time in microseconds; the next part, "" if that was all, and its cursor; how
--        many messages have died, and why the last one did
--
-- No message is early; one that cannot be leased is dead, with a reason.

local part, cursor, steps = ARGV[1], ARGV[2], ARGV[3]
local died, last_why = 0, ''
local FOLLOWING = {
  messages = 'waiting', waiting = 'leased', leased = 'dead', dead = 'held', held = 'states',
}

local function let_die(id, state, why)
  redis.call('ZREM', WAITING, id)
  give_up(id, state, why, 0)
  died, last_why = died + 1, why
end

-- A message that is in no set: returns it to where it was, according to its state.
local function put_somewhere(id)
  local state = state_of(redis.call('HGET', STATES, id))
  if state.token <= 0 and state.consumer ~= '' then
    redis.call('ZADD', DEAD, NOW, id)
  elseif state.is_known and state.due ~= 0 then
    put_back(id, state, state.due, 0)
  else
    let_die(id, state, 'when it is due was lost')
  end
end

local menders = {}

function menders.messages()
  local found = redis.call('HSCAN', MESSAGES, cursor, 'COUNT', steps)
  for i = 1, #found[2], 2 do
    local id = found[2][i]
    local waits, leased, dead =
      redis.call('ZSCORE', WAITING, id), redis.call('ZSCORE', LEASED, id),
      redis.call('ZSCORE', DEAD, id)
    if leased and (waits or dead) then
      redis.call('ZREM', WAITING, id)
      redis.call('ZREM', DEAD, id)
    elseif waits and dead then
      redis.call('ZREM', WAITING, id)
    elseif not (waits or leased or dead) then
      put_somewhere(id)
    end
  end
  return found[1]
end

-- The messages of a set: `mend_one` is called for each that has a body. The others die; if one
-- is leased, it is dead when its lease ends.
local function in_set(key, mend_one)
  local found = redis.call('ZSCAN', key, cursor, 'COUNT', steps)
  for i = 1, #found[2], 2 do
    local id, score = found[2][i], tonumber(found[2][i + 1])
    if redis.call('HEXISTS', MESSAGES, id) == 1 then
      mend_one(id, score)
    else
      adopt(id)
      if key ~= LEASED or score <= NOW or score > NOW + LONGEST then
        let_die(id, state_of(redis.call('HGET', STATES, id)), BODY_LOST)
      end
    end
  end
  return found[1]
end

function menders.waiting()
  return in_set(WAITING, function(id, score)
    if score > LATEST then
      let_die(id, state_of(redis.call('HGET', STATES, id)), 'when it is due was lost')
    end
  end)
end

function menders.leased()
  return in_set(LEASED, function(id, score)
    local state = state_of(redis.call('HGET', STATES, id))
    if score > NOW + LONGEST then
      redis.call('ZADD', LEASED, NOW, id)
    end
    if state.token > 0 then
      redis.call('ZADD', HELD, 0, held_as(state.consumer, id))
    end
  end)
end

function menders.dead()
  return in_set(DEAD, function(id, score)
    if math.abs(score) > LATEST then
      redis.call('ZADD', DEAD, NOW, id)
    end
  end)
end

function menders.held()
  local found = redis.call('ZSCAN', HELD, cursor, 'COUNT', steps)
  for i = 1, #found[2], 2 do
    local consumer, id = string.match(found[2][i], '^(%Z*)%z(.*)$')
    if consumer and redis.call('ZSCORE', LEASED, id)
      and is_held_by(consumer, state_of(redis.call('HGET', STATES, id))) then
      redis.call('ZADD', HELD, 0, found[2][i])
    else
      redis.call('ZREM', HELD, found[2][i])
    end
  end
  return found[1]
end

function menders.states()
  local found = redis.call('HSCAN', STATES, cursor, 'COUNT', steps)
  for i = 1, #found[2], 2 do
    if redis.call('HEXISTS', MESSAGES, found[2][i]) == 0 then
      redis.call('HDEL', STATES, found[2][i])
    end
  end
  return found[1]
end

redis.call('HDEL', STATES, '') -- see bucket.lua: a server without free memory can be repaired
if part == '' then
  part, cursor = 'messages', '0'
end
cursor = menders[part]()
if cursor == '0' then
  part = FOLLOWING[part] or ''
end
if part == '' then
  if not natural(redis.call('HGET', META, 'token')) then
    redis.call('HDEL', META, 'token')
  end
  if not natural(redis.call('HGET', META, 'dead')) then
    redis.call('HSET', META, 'dead', redis.call('ZCARD', DEAD))
  end
  settle_totals()
end
return { NOW_US, part, cursor, died, last_why }
