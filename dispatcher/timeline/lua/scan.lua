-- Goes through the messages of a bucket in small steps. It comes after bucket.lua.
--
-- ARGV   owner ("" for all), cursor, about how many to look at, "dead" for only those or ""
-- Reply  the server's time in microseconds, the next cursor ("0" if that was all), an answer for
--        each, the lengths of each one's id, of what is stored and of why it is dead, and all
--        three, "<I2I4I2"

local owner, cursor, steps, only = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ids, answers, texts = {}, {}, {}
local reply = redis.call(only == 'dead' and 'ZSCAN' or 'HSCAN', only == 'dead' and DEAD or MESSAGES,
  cursor, 'COUNT', steps)

for i = 1, #reply[2], 2 do
  local id = reply[2][i]
  local stored = only == 'dead' and redis.call('HGET', MESSAGES, id) or reply[2][i + 1]
  if owner == '' or string.sub(stored, 2, 1 + string.byte(stored)) == owner then
    local status, time = where_is(id)
    local state = state_of(redis.call('HGET', STATES, id))
    answers[#answers + 1] = answer(DONE, status, time, state)
    local why = status == IS_DEAD and state.consumer or ''
    texts[#texts + 1] = struct.pack('<I2I4I2', #id, #stored, #why) .. id .. stored .. why
  end
end
return { NOW_US, reply[1], table.concat(answers), table.concat(texts) }
