-- Fair shares of several bounds: _coordinator/shares.py in Lua. A crowd has the `weights` of
-- its instances, what they need of each bound (`needs`: a list for each bound), and the `wholes` of the
-- bounds. A level is (units, weight), of all bounds in two lists: a weight of zero says that there is
-- enough for all. Products of whole numbers stay below 2^53, or are taken in the same order.

-- The weights of all in each bound: those of the instance, by the shape of its needs.
local function grow(crowd)
  if crowd.grown then
    return
  end
  local needs, weights, wholes, grown = crowd.needs, crowd.weights, crowd.wholes, {}
  for b = 1, #wholes do
    grown[b] = {}
  end
  if #wholes == 1 then
    local need, list = needs[1], grown[1]
    for i = 1, #crowd.weights do
      list[i] = need[i] > 0 and weights[i] * SHAPE or 0
    end
  else
    for i = 1, #crowd.weights do
      local dominant = 0
      for b = 1, #wholes do
        dominant = max(dominant, needs[b][i] / wholes[b])
      end
      for b = 1, #wholes do
        local part = needs[b][i] / wholes[b]
        grown[b][i] = part > 0 and weights[i] * ceil(part / dominant * SHAPE) or 0
      end
    end
  end
  crowd.grown = grown
end

-- The level of one bound, of which there are so many units.
local function level(wants, grown, units)
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
      want[count], weight[count] = wants[i], grown[i]
      all = all + grown[i]
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

-- As much of its needs as these levels leave to an instance: the scale of all, the bound that limits
-- it, and the units it gets of that. The bound is 0 if none does.
function shares.scale(crowd, i, units, weights)
  local scale, scarcest, most = 1, 0, 0
  for b = 1, #units do
    local need = crowd.needs[b][i]
    if weights[b] ~= 0 and need ~= 0 then
      grow(crowd)
      local of_bound = crowd.grown[b][i] * units[b] / weights[b]
      if of_bound / need < scale then
        scale, scarcest, most = of_bound / need, b, of_bound
      end
    end
  end
  return scale, scarcest, most
end

-- What an instance may have of one bound by that, before it is rounded down.
function shares.part(need, b, scale, scarcest, most)
  if scarcest == 0 then
    return need
  end
  return b == scarcest and most or scale * need
end

-- What those that are not to be left out want of a bound.
local function wants_of(needs, omitted)
  if not omitted then
    return needs
  end
  local wants = {}
  for i = 1, #needs do
    wants[i] = omitted[i] and 0 or needs[i]
  end
  return wants
end

-- The levels of all bounds, of which so much is left; without those that are omitted.
function shares.levels(crowd, left, omitted)
  local units, weights, wants, short = {}, {}, {}, {}
  for b = 1, #left do
    units[b], weights[b] = 0, 0
    wants[b] = wants_of(crowd.needs[b], omitted)
    local sum = 0
    for i = 1, #crowd.weights do
      sum = sum + wants[b][i]
    end
    if sum > left[b] then
      short[#short + 1] = b
    end
  end
  for _ = 1, #left do
    if #short == 0 then
      break
    end
    grow(crowd)
    local still, first, found_units, found_weight, lowest = {}, nil, 0, 0, 0
    for _, b in ipairs(short) do
      local of_bound, weight = level(wants[b], crowd.grown[b], left[b])
      if weight ~= 0 then
        still[#still + 1] = b
        local height = of_bound / weight / crowd.wholes[b]
        if not first or height < lowest then
          first, found_units, found_weight, lowest = b, of_bound, weight, height
        end
      end
    end
    if not first then
      break
    end
    units[first], weights[first] = found_units, found_weight
    short = {}
    for _, b in ipairs(still) do
      if b ~= first then
        short[#short + 1], wants[b] = b, {}
      end
    end
    if #short > 0 then
      for i = 1, #crowd.weights do
        local scale, scarcest, most = shares.scale(crowd, i, units, weights)
        local out = omitted and omitted[i]
        for _, b in ipairs(short) do
          local part = shares.part(crowd.needs[b][i], b, scale, scarcest, most)
          wants[b][i] = out and 0 or floor(part)
        end
      end
    end
  end
  return units, weights
end

-- How much of its dominant bound an instance could have if it needed as much as it could get, in
-- parts of UNITS; at least one.
function shares.dominant(crowd, i, units, weights)
  local idle, most = true, UNITS
  for b = 1, #units do
    idle = idle and crowd.needs[b][i] == 0
  end
  for b = 1, #units do
    if weights[b] ~= 0 and (idle or crowd.needs[b][i] ~= 0) then
      local of_bound = crowd.weights[i] * SHAPE * units[b] / weights[b]
      most = min(most, floor(of_bound * (UNITS / crowd.wholes[b])))
    end
  end
  return max(1, most)
end
