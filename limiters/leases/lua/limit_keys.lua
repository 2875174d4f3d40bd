-- The keys of a limit, as limit_state.lua lists them, and what may stand in their places; and what a
-- call works on, which all parts see.

local LIMIT, GRANTS, PEOPLE, OLD, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local limit -- the limit; nil if there is none
local process -- what the server process knows of all limits; nil if that is nothing

-- An error reply if the first format of the limit is stored, or one of the keys keeps something else
-- than a hash: a script that found that out only as it writes would have written a part of what it
-- has to.
local function occupied()
  local old = redis.pcall('HLEN', OLD)
  if type(old) == 'number' and old > 0 then
    return redis.error_reply('OLDFORMAT')
  end
  for _, key in ipairs({ LIMIT, GRANTS, PEOPLE, REGISTRY }) do
    local length = redis.pcall('HLEN', key)
    if type(length) == 'table' then
      local foreign = string.find(length.err, 'WRONGTYPE')
      return redis.error_reply(foreign and 'WRONGTYPE ' .. key or length.err)
    end
  end
  return nil
end
