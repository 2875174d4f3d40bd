-- Stored values are checked like arguments: another program, an eviction or a fault may have made
-- anything of them. Comes first in every script.

local LATEST = 1e15 -- later times are invalid, in milliseconds
local LONGEST = 4e11 -- more than any lease lasts, or any id is remembered

-- The number in a stored value if it is whole and exact, or nil. Of text only what HINCRBY accepts,
-- since tonumber() reads ' 7' and '0x10' as well.
local function whole(text)
  local number = (type(text) == 'number' or string.find(text, '^-?%d+$')) and tonumber(text)
  if number and number == math.floor(number) and math.abs(number) < 9007199254740992 then
    return number
  end
end

local function natural(text)
  local number = whole(text or 0)
  return number and number >= 0 and number or nil
end

-- A score as a time, which is always whole and finite.
local function time_of(score)
  local time = tonumber(score)
  return time and math.max(-LATEST, math.min(LATEST, math.floor(time)))
end

-- The size of a key; an error that names the key, if it is of another type.
local function size_of(key, is_hash)
  local size = redis.pcall(is_hash and 'HLEN' or 'ZCARD', key)
  if type(size) == 'table' and string.find(size.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply('WRONGTYPE ' .. key)
  end
  return size
end

-- The size of each key; nil and the error, if one is of another type. `kinds` marks the hashes
-- among the first keys, and repeats for the others. A script that begins with it
-- does all or nothing; otherwise it could fail half way.
local function sizes_of(keys, are_hashes)
  local sizes = {}
  for i, key in ipairs(keys) do
    sizes[i] = size_of(key, are_hashes[(i - 1) % #are_hashes + 1])
    if type(sizes[i]) == 'table' then
      return nil, sizes[i]
    end
  end
  return sizes
end

-- The key in an error about a key of another type.
local function named_by(wrong)
  return string.match(wrong.err, 'WRONGTYPE (.*)') or wrong.err
end
