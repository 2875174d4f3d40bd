-- Carries out a request, once. Comes after families.lua.

-- Whether the server has no memory left: then nothing is taken but what frees some, or needs none.
local is_full = false

local ABANDONED_MS = 10000
local REMEMBERED_MS = 3600000

-- Continues the agenda of a dead gate.
local function take_over_one()
  local id = redis.call('ZRANGEBYSCORE', UNFINISHED, '-inf', in_digits(now_ms - ABANDONED_MS),
    'LIMIT', 0, 1)[1]
  if id then
    families().take_over(id)
  end
end

-- Deletes the replies to gates that will not ask again.
local function forget_gates()
  local gone = redis.call('ZRANGEBYSCORE', HEARD, '-inf', now_ms - REMEMBERED_MS, 'LIMIT', 0, 10)
  if #gone > 0 then
    redis.call('HDEL', REPLIES, unpack(gone))
    redis.call('ZREM', HEARD, unpack(gone))
  end
end

local function answer(hands_out, carry_out)
  local wrong, id, has_worked
  if totals.auto ~= bounds.auto and (totals.auto == 'on' or totals.auto == 'off') then
    wrong = 'conflict'
  else
    if totals.auto ~= bounds.auto then
      set_total('auto', bounds.auto)
    end
    wrong = carry_out()
    has_worked = agenda ~= nil
    id = has_worked and families().work()
    if hands_out and (not id or id == '') then
      agenda = nil
      take_over_one()
      id = agenda and families().work()
    end
  end
  for _, entity in ipairs(told) do
    link(entity)
  end
  local left = (has_worked or is_held_examined) and redis.call('EXISTS', GARBAGE) == 1
    and families().collect()
  local next_one = oldest()
  left = (totals.mending or is_to_be_mended) and mending()() or left or (next_one and is_old(next_one))
  local answered = with_header(id or '', left, wrong or 'ok')
  redis.call('HSET', REPLIES, gate, cmsgpack.pack({ request, answered }))
  redis.call('ZADD', HEARD, in_digits(now_ms), gate)
  if is_all_examined then
    forget_gates()
  end
  return answered
end

-- Runs `carry_out`, unless this request was carried out before. `hands_out`: whether the caller of
-- the gate is given the releases.
local function serve(hands_out, carry_out)
  read_time()
  read_totals()
  if totals.now_ms - now_ms < REMEMBERED_MS then -- it is damaged if it is so far ahead
    now_ms = math.max(now_ms, totals.now_ms)
  end
  local last, before = unpacked(redis.call('HGET', REPLIES, gate) or '', 2)
  if last == request and type(before) == 'table' then
    return before
  end
  -- A server that has no memory left refuses the first write if that needs some, and lets a script
  -- go on that has written something: so each script tries first, and decides by itself.
  local tried = redis.pcall('HSET', TOTALS, 'now_ms', in_digits(now_ms))
  if type(tried) == 'table' then
    is_full = string.find(tried.err, '^%-?OOM') ~= nil
    if is_full then
      redis.call('HDEL', TOTALS, '')
    end
    redis.call('HSET', TOTALS, 'now_ms', in_digits(now_ms))
  end
  if not are_totals_whole or totals.existing ~= count_keys()
    or math.abs(now_ms - totals.examined_ms) >= EXAMINED_MS then
    examine()
  end
  local is_answered, answered = pcall(answer, hands_out, carry_out)
  write_totals() -- after a failure too, so that no number is given twice
  if not is_answered then
    error(answered, 0)
  end
  return answered
end
