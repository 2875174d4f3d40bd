-- Fair shares of several bounds: _coordinator/shares.py in Lua. A demand has the `needs` of an
-- instance, its `weight`, and the `wholes` of the bounds. A level is (units, weight), of all bounds in
-- two lists: a weight of zero says that there is enough for all. Products of whole numbers stay below
-- 2^53, or are taken in the same order.

-- The weights of an instance in each bound, by the shape of its needs.
local function weights_of(demand)
  if demand.weights then
    return demand.weights
  end
  local needs, wholes, weights, dominant = demand.needs, demand.wholes, {}, 0
  for b = 1, #wholes do
    local part = needs[b] / wholes[b]
    weights[b] = part
    dominant = part > dominant and part or dominant
  end
  for b = 1, #wholes do
    local part = weights[b]
    weights[b] = part > 0 and demand.weight * ceil(part / dominant * SHAPE) or 0
  end
  demand.weights = weights
  return weights
end

-- As much of its needs as these levels leave to an instance: the scale of all, the bound that limits
-- it, and the units it gets of that. The bound is 0 if none does.
function shares.scale(demand, units, weights)
  local scale, scarcest, most = 1, 0, 0
  for b = 1, #units do
    local need = demand.needs[b]
    if weights[b] ~= 0 and need ~= 0 then
      local of_bound = weights_of(demand)[b] * units[b] / weights[b]
      if of_bound / need < scale then
        scale, scarcest, most = of_bound / need, b, of_bound
      end
    end
  end
  return scale, scarcest, most
end

-- What an instance may have of each bound by that, before it is rounded down; whether that is less than
-- it needs; and the bound that limits it, or 0.
function shares.parts(demand, scale, scarcest, most)
  local needs = demand.needs
  if scarcest == 0 then
    return needs, false, 0
  end
  local parts = {}
  for b = 1, #needs do
    parts[b] = scale * needs[b]
  end
  parts[scarcest] = most
  return parts, true, scarcest
end

-- The bounds, those that are used up first in front, and last those that are not short.
function shares.in_order(units, weights, wholes)
  local order, heights = {}, {}
  for b = 1, #units do
    heights[b] = weights[b] ~= 0 and units[b] / weights[b] / wholes[b] or math.huge
    local place = #order + 1
    for k = #order, 1, -1 do
      if heights[order[k]] <= heights[b] then
        break
      end
      order[k + 1], place = order[k], k
    end
    order[place] = b
  end
  return order
end

-- Counts one instance in the fillings of all bounds. How much of a bound it uses depends on bounds
-- before that alone, in this order.
function shares.fill(fillings, demand, units, weights, order)
  local scale, needs, own = 1, demand.needs, weights_of(demand)
  for k = 1, #order do
    local b = order[k]
    local need, filling, of_bound = needs[b], fillings[b], nil
    filling.weight = filling.weight + own[b]
    if need ~= 0 and weights[b] ~= 0 then
      of_bound = own[b] * units[b] / weights[b]
    end
    if of_bound and of_bound / need < scale then
      filling.limited = filling.limited + own[b]
      scale = of_bound / need
    else
      filling.used = filling.used + floor(scale * need * shares.parts_of(demand.wholes[b]))
    end
  end
end

local parts_of = {} -- what is known of it, by the whole

-- In how many parts of a unit the use of a bound is counted.
function shares.parts_of(whole)
  parts_of[whole] = parts_of[whole] or floor(USE_PARTS / whole)
  return parts_of[whole]
end

-- The level that divides what the others leave of `left` among those that the bound limits: a step of
-- Newton's method.
local function next_level(filling, units, weight, left, whole)
  local used = filling.used / shares.parts_of(whole)
  local is_over = used > left
  if weight == 0 then
    if is_over then
      return max(0, left), filling.weight
    end
    return 0, 0
  end
  local half = units / 2
  if filling.limited == 0 then
    if is_over then
      return half, weight
    end
    return 0, 0
  end
  local step = max(0, left - used)
  if step / filling.limited < half / weight then
    return half, weight
  end
  return step, filling.limited
end

-- The levels after a round. Where one moves far, those behind it stay: they would follow what is not
-- going to last.
function shares.next_levels(fillings, units, weights, left, order, wholes)
  local new_units, new_weights = {}, {}
  for b = 1, #units do
    new_units[b], new_weights[b] = units[b], weights[b]
  end
  for k = 1, #order do
    local b = order[k]
    local before = weights[b] ~= 0 and units[b] / weights[b] or 0
    local found, weight = next_level(fillings[b], units[b], weights[b], left[b], wholes[b])
    new_units[b], new_weights[b] = found, weight
    if weight ~= 0 and math.abs(found / weight - before) > before / CALM then
      break
    end
  end
  return new_units, new_weights
end

-- How much of its dominant bound an instance could have if it needed as much as it could get, in
-- parts of UNITS; at least one.
function shares.dominant(demand, units, weights)
  local idle, most, needs = true, UNITS, demand.needs
  for b = 1, #units do
    idle = idle and needs[b] == 0
  end
  for b = 1, #units do
    if weights[b] ~= 0 and (idle or needs[b] ~= 0) then
      local of_bound = demand.weight * SHAPE * units[b] / weights[b]
      most = min(most, floor(of_bound * (UNITS / demand.wholes[b])))
    end
  end
  return max(1, most)
end
