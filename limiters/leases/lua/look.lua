-- What is known of a limit, as of now. Changes nothing.
--
-- KEYS   limit, members, totals
-- Reply  the server's time in milliseconds, as text; the fields of the limit and their values;
--        the instances and what is known of each; the totals, packed. state.lua and members.lua
--        say how they are written.

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
return {
  string.format('%.17g', now_ms),
  redis.call('HGETALL', KEYS[1]),
  redis.call('HGETALL', KEYS[2]),
  redis.call('GET', KEYS[3]),
}
