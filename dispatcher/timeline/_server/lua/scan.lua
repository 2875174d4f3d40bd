-- Pages through the messages of a bucket in small steps. Comes after bucket.lua and told.lua.
--
-- ARGV   which part: "" for all messages, or "waiting", "leased" or "dead"; cursor; about how
--        many to examine; owner ("" for all); from, to (excluded); with bodies ("1" or "");
--        the codes of the states that are looked for, none for any
-- Reply  the server's time in microseconds, the next cursor ("0" if that was all), how many were
--        examined, how many bytes were read for that, each message, as told.lua encodes it

local part, cursor, steps, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local from, to, with_bodies = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local wanted, any = {}, #ARGV == 7
for i = 8, #ARGV do
  wanted[tonumber(ARGV[i])] = true
end

local sets = { waiting = WAITING, leased = LEASED, dead = DEAD }
local reply = redis.call(
  part == '' and 'HSCAN' or 'ZSCAN', sets[part] or MESSAGES, cursor, 'COUNT', steps
)
local bytes = 0

local function is_owned(stored)
  return owner == '' or owner_of(stored) == owner
end

local function look_at(id, stored)
  local status, time = where_is(id)
  if (any or wanted[status]) and time >= from and time < to then
    stored = stored or redis.call('HGET', MESSAGES, id) or ''
    bytes = bytes + #stored
    if is_owned(stored) then
      tell(id, stored, status, time, with_bodies)
    end
  end
end

for i = 1, #reply[2], 2 do
  local id, stored = reply[2][i], part == '' and reply[2][i + 1] or nil
  if not stored then
    look_at(id)
  elseif is_owned(stored) then
    look_at(id, stored)
  else
    bytes = bytes + #stored
  end
end
return {
  NOW_US, reply[1], #reply[2] / 2, bytes, table.concat(answers), table.concat(texts),
}
