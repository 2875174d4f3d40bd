-- The keys of a limit, as limit_state.lua lists them, and what may stand in their places.

local LIMIT, GRANTS, PEOPLE, OLD, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- The length of a hash, 0 if there is none; or the error of what is something else.
local function length_of(key)
  local length = redis.pcall('HLEN', key)
  if type(length) == 'table' then
    return nil, string.find(length.err, 'WRONGTYPE') and 'WRONGTYPE ' .. key or length.err
  end
  return length
end

-- An error reply if the first format of the limit is stored, or one of the keys keeps something else
-- than a hash: a script that found that out only as it writes would have written a part of what it
-- has to.
local function occupied()
  if (length_of(OLD) or 0) > 0 then
    return redis.error_reply('OLDFORMAT')
  end
  for _, key in ipairs({ LIMIT, GRANTS, PEOPLE, REGISTRY }) do
    local length, failure = length_of(key)
    if not length then
      return redis.error_reply(failure)
    end
  end
  return nil
end
