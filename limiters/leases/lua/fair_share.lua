-- Who gets how many partitions: fair_share.py, in Lua. All asks together are three lists of
-- numbers: {wanted = {...}, weight = {...}, credit = {...}, soon = {...}}.

local MEMORY = 20 -- seconds
local ROUNDING = 1e-8

local function partitions_of(capacity, factor)
  return math.ceil(capacity / factor - 1e-8) + 0 -- and never -0
end

-- The level up to which everybody is filled; infinite if there is enough for all.
local function water_level(asks, units)
  local wanted, weight = asks.wanted, asks.weight
  local rest, weights, all = {}, 0, 0
  for i = 1, #wanted do
    if wanted[i] > 0 then
      rest[#rest + 1] = i
      weights = weights + weight[i]
      all = all + wanted[i]
    end
  end
  local level = math.huge
  if all <= units then
    return level
  end
  while #rest > 0 and weights > 0 do
    level = units / weights
    local unfilled, filled = {}, 0
    weights = 0
    for _, i in ipairs(rest) do
      if wanted[i] > weight[i] * level then
        unfilled[#unfilled + 1] = i
        weights = weights + weight[i]
      else
        filled = filled + wanted[i]
      end
    end
    if #unfilled == #rest then
      break
    end
    units = units - filled
    rest = unfilled
  end
  return level
end

-- Shares `full` partitions, and one that is worth only `remainder` of one, among `asks`:
-- the level, and how much who gets a left-over one, who keeps it, and who gets the last one, is
-- owed at least.
local function share_out(asks, full, remainder)
  local level = water_level(asks, full + remainder)
  local given, owed, soon = 0, {}, {}
  for i, wanted in ipairs(asks.wanted) do
    local share = math.min(wanted, asks.weight[i] * level)
    local floor = math.floor(share + ROUNDING)
    given = given + floor
    if share < wanted and share > floor + ROUNDING then
      owed[#owed + 1] = asks.credit[i]
      soon[#soon + 1] = asks.soon[i]
    end
  end
  table.sort(owed)
  table.sort(soon)
  local left = full - given
  local extra, keep, last = math.huge, math.huge, nil
  if left > 0 and #owed > 0 then
    local at = #owed - math.min(left, #owed) + 1
    extra, keep = owed[at], soon[at]
  end
  if remainder > 0 and left >= 0 then
    last = owed[#owed - left]
  end
  return { level = level, extra = extra, keep = keep, last = last or extra }
end

-- What `shares` mean for one who asks and holds as much as `held`.
local function entitled(shares, ask, held)
  local wanted, weight, credit = ask.wanted, ask.weight, ask.credit
  local share = math.min(wanted, weight * shares.level)
  local floor = math.floor(share + ROUNDING)
  if share >= wanted - ROUNDING then
    return { share = share, full = wanted, last = true }
  end
  if share <= floor + ROUNDING then
    return { share = share, full = floor, last = false }
  end
  local extra
  if held >= floor + 1 then
    extra = ask.soon >= shares.keep
  else
    extra = credit >= shares.extra
  end
  return {
    share = share,
    full = floor + (extra and 1 or 0),
    last = not extra and credit >= shares.last,
  }
end

-- The credit of one who got `owed` partitions less than its share for so long.
local function credit_after(credit, owed, seconds)
  local kept = credit * math.max(0, 1 - seconds / MEMORY)
  return math.floor((kept + owed * seconds) * 1e6 + 0.5) / 1e6
end
