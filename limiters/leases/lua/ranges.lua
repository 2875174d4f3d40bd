-- Sets of partitions: ranges.py, in Lua. A set is {first, last, first, last, ...}: disjoint, in
-- order, and never touching. Written as text: "0-4,7". No function changes what it was given.

local EMPTY = {}

local function parse(text)
  local set, n = {}, 0
  for first, last in string.gmatch(text, '(%d+)%-?(%d*)') do
    set[n + 1] = tonumber(first)
    set[n + 2] = tonumber(last) or set[n + 1]
    n = n + 2
  end
  return set
end

local function text_of(set)
  local parts = {}
  for i = 1, #set, 2 do
    parts[#parts + 1] = set[i] == set[i + 1] and set[i] or set[i] .. '-' .. set[i + 1]
  end
  return table.concat(parts, ',')
end

-- Everything from `first` up to, not including, `past`.
local function span(first, past)
  return first < past and { first, past - 1 } or EMPTY
end

local function count(set)
  local n = 0
  for i = 1, #set, 2 do
    n = n + set[i + 1] - set[i] + 1
  end
  return n
end

local function union(one, other)
  local merged, n, i, j = {}, 0, 1, 1
  while one[i] or other[j] do
    local first, last
    if not other[j] or (one[i] and one[i] <= other[j]) then
      first, last, i = one[i], one[i + 1], i + 2
    else
      first, last, j = other[j], other[j + 1], j + 2
    end
    if n > 0 and first <= merged[n] + 1 then
      merged[n] = math.max(merged[n], last)
    else
      merged[n + 1], merged[n + 2], n = first, last, n + 2
    end
  end
  return merged
end

local function without(one, other)
  local left, n, at = {}, 0, 1
  for i = 1, #one, 2 do
    local first, last = one[i], one[i + 1]
    while other[at] and other[at + 1] < first do
      at = at + 2
    end
    local cut = at
    while other[cut] and other[cut] <= last do
      if first < other[cut] then
        left[n + 1], left[n + 2], n = first, other[cut] - 1, n + 2
      end
      first, cut = other[cut + 1] + 1, cut + 2
    end
    if first <= last then
      left[n + 1], left[n + 2], n = first, last, n + 2
    end
  end
  return left
end

local function common(one, other)
  return without(one, without(one, other))
end

-- The `most` lowest partitions of `set`.
local function lowest(set, most)
  local taken = {}
  for i = 1, #set, 2 do
    if most <= 0 then
      break
    end
    local last = math.min(set[i + 1], set[i] + most - 1)
    taken[i], taken[i + 1] = set[i], last
    most = most - (last - set[i] + 1)
  end
  return taken
end
