-- What is stored is checked like what is given: another program, an eviction or a fault may have made
-- anything of it. It comes first in every script.

local LATEST = 1e15 -- times after it are none, in milliseconds
local LONGEST = 4e11 -- more than any lease lasts, or any id is remembered

-- Of what is stored, or nil: its number, if that is whole and exact. Of text only what HINCRBY takes,
-- too: tonumber() reads ' 7' and '0x10' as well.
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

-- How much is in a key; an error that names the key, if that is of another type.
local function size_of(key, is_hash)
  local size = redis.pcall(is_hash and 'HLEN' or 'ZCARD', key)
  if type(size) == 'table' and string.find(size.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply('WRONGTYPE ' .. key)
  end
  return size
end

-- How much is in each key; nil and the error, if one is of another type. Which are hashes is said
-- for the first keys, and the others are like these, again and again. A script that begins with it
-- does all or nothing: it would fail half way otherwise.
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

-- The key that is of another type.
local function named_by(wrong)
  return string.match(wrong.err, 'WRONGTYPE (.*)') or wrong.err
end
