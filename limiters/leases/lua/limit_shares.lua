-- Weighted max-min fair shares of whole units: _coordinator/shares.py in Lua. A level is (units,
-- weight): each gets what it wants, but at most `units` for `weight` of weight; without a bound if
-- the weight is zero. Products of two amounts stay below 2^53, and so does a quotient's floor.

-- What an instance may have that wants `want`.
local function share_at(units, weight, want, own_weight)
  if weight == 0 then
    return want
  end
  return min(want, floor(own_weight * units / weight))
end

-- The fair level of `units` for (want, weight) of each instance, in two lists.
local function level_of(wants, weights, units)
  local needed = 0
  for i = 1, #wants do
    needed = needed + wants[i]
  end
  if needed <= units then
    return 0, 0
  end
  local want, weight, count, all = {}, {}, 0, 0
  for i = 1, #wants do
    if wants[i] > 0 then
      count = count + 1
      want[count], weight[count] = wants[i], weights[i]
      all = all + weights[i]
    end
  end
  local left = units
  for _ = 1, MAX_ROUNDS do
    local kept, satisfied, freed = 0, 0, 0
    for i = 1, count do
      local one, own = want[i], weight[i]
      if one <= floor(own * left / all) then
        satisfied, freed = satisfied + one, freed + own
      else
        kept = kept + 1
        want[kept], weight[kept] = one, own
      end
    end
    if kept == count then
      break
    end
    count, left, all = kept, left - satisfied, all - freed
  end
  return max(0, left), all
end
