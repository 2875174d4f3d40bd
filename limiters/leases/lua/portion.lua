-- Which part of what was spent goes along when capacity changes hands: portion.py, in Lua.
-- Entries are {at, cost, at, cost, ...}, in order of time.

local function total_of(entries)
  local total = 0
  for i = 2, #entries, 2 do
    total = total + entries[i]
  end
  return total
end

-- Entries of `target` cost in all, and those that are left.
local function portion(entries, target)
  local total = total_of(entries)
  if target >= total then
    return entries, {}
  end
  local share = math.max(0, target) / total
  local goes, owed = {}, 0
  for i = 2, #entries, 2 do
    local cost = entries[i]
    owed = owed + cost * share
    if owed >= cost * (1 - 1e-8) then
      goes[i] = cost
      owed = math.max(0, owed - cost)
    end
  end
  -- What is still owed is less than an entry or so: the newest ones are cut.
  local i = #entries
  while owed > total * 1e-8 and i > 0 do
    if not goes[i] then
      goes[i] = math.min(entries[i], owed)
      owed = owed - goes[i]
    end
    i = i - 2
  end
  local taken, left = {}, {}
  for i = 2, #entries, 2 do
    if goes[i] then
      taken[#taken + 1] = entries[i - 1]
      taken[#taken + 1] = goes[i]
    end
    if entries[i] > (goes[i] or 0) then
      left[#left + 1] = entries[i - 1]
      left[#left + 1] = entries[i] - (goes[i] or 0)
    end
  end
  return taken, left
end
