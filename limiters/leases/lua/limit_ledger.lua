-- What was spent on an amount, by time: _ledger.py in Lua. A ledger is a list { at, cost, at, cost,
-- ... } in order of time, with one entry for each stamp. Sums are taken in that order.

local WIDE = '<' .. string.rep('d', CHUNK)

-- The doubles that are packed in a string.
local function doubles(packed)
  local values, count, position = {}, floor(#packed / 8), 1
  for _ = 1, floor(count / CHUNK) do
    local many = { struct.unpack(WIDE, packed, position) }
    local before = #values
    for i = 1, CHUNK do
      values[before + i] = many[i]
    end
    position = many[CHUNK + 1]
  end
  local rest = count - #values
  if rest == 0 then
    return values
  end
  local many = { struct.unpack('<' .. string.rep('d', rest), packed, position) }
  many[rest + 1] = nil -- the position behind it
  if #values == 0 then
    return many
  end
  local before = #values
  for i = 1, rest do
    values[before + i] = many[i]
  end
  return values
end

-- The doubles in a string that is stored, or was sent; nil if one is not finite, or a part of one is
-- missing.
local function floats_in(text)
  if not text or #text % 8 ~= 0 then
    return nil
  end
  local values = doubles(text)
  for i = 1, #values do
    if not is_finite(values[i]) then
      return nil
    end
  end
  return values
end

-- The same for pairs, of which the first is a whole number.
local function pairs_in(text)
  if not text or #text % 16 ~= 0 then
    return nil
  end
  local values = doubles(text)
  for i = 1, #values, 2 do
    if not is_whole(values[i]) or not is_finite(values[i + 1]) then
      return nil
    end
  end
  return values
end

local function packed(values)
  if #values <= CHUNK then
    return struct.pack('<' .. string.rep('d', #values), unpack(values))
  end
  local parts = {}
  for i = 1, #values, CHUNK do
    local last = min(#values, i + CHUNK - 1)
    parts[#parts + 1] =
      struct.pack('<' .. string.rep('d', last - i + 1), unpack(values, i, last))
  end
  return table.concat(parts)
end

-- The end of the slice in which `at` lies.
local function slice_end(at, period)
  local width = max(1, floor(period / SLICES))
  return ceil(at / width) * width
end

-- How long an entry counts after its stamp: the period, and a guard.
local function counts_for(period)
  return period + max(GUARD_MS, ceil(period * GUARD_MS / 1000))
end

-- The position of the first entry whose stamp is not before `at`.
local function first_from(ledger, at)
  local low, high = 0, #ledger / 2
  for _ = 1, #ledger do
    if low >= high then
      break
    end
    local middle = floor((low + high) / 2)
    if ledger[2 * middle + 1] < at then
      low = middle + 1
    else
      high = middle
    end
  end
  return 2 * low + 1
end

-- Counts `cost` until a period after `at`.
local function ledger_add(ledger, at, cost)
  if cost <= 0 then
    return
  end
  local position = first_from(ledger, at)
  if ledger[position] == at then
    ledger[position + 1] = ledger[position + 1] + cost
    return
  end
  for i = #ledger, 1, -1 do
    if i < position then
      break
    end
    ledger[i + 2] = ledger[i]
  end
  ledger[position], ledger[position + 1] = at, cost
end

-- Adds `part` of the entries of another ledger.
local function ledger_merge(ledger, other, part)
  for i = 1, #other, 2 do
    ledger_add(ledger, other[i], other[i + 1] * (part or 1))
  end
end

-- What a request says was spent on something that is worth `most`: no more than that, so that it
-- takes nothing from others; and only what still counts after `since`.
local function believed(entries, most, since)
  local counting, total = {}, 0
  for i = 1, #entries, 2 do
    local at, cost = entries[i], max(0, entries[i + 1])
    if at > since then
      counting[#counting + 1], counting[#counting + 2] = at, cost
      total = total + cost
    end
  end
  if total > most * (1 + FLOAT_ERROR) then
    for i = 2, #counting, 2 do
      counting[i] = counting[i] / total * most
    end
  end
  return counting
end

-- Takes `cost` back from the entry at `at`.
local function ledger_subtract(ledger, at, cost)
  local position = first_from(ledger, at)
  if ledger[position] ~= at then
    return
  end
  local left = ledger[position + 1] - cost
  if left > 1e-9 then
    ledger[position + 1] = left
  else
    table.remove(ledger, position)
    table.remove(ledger, position)
  end
end

-- `part` of every entry, and the rest, so that both have the same profile in time.
local function ledger_split(ledger, part)
  if part >= 1 then
    return ledger, {}
  end
  local taken = {}
  if part > 0 then
    local rest = {}
    for i = 1, #ledger, 2 do
      local at, cost = ledger[i], ledger[i + 1]
      taken[i], taken[i + 1] = at, cost * part
      rest[i], rest[i + 1] = at, cost - cost * part
    end
    ledger = rest
  end
  return taken, ledger
end

-- Drops the entries up to `since`; the sum of the others.
local function ledger_total(ledger, since)
  local dropped = 0
  for i = 1, #ledger, 2 do
    if ledger[i] > since then
      break
    end
    dropped = i + 1
  end
  local length, total = #ledger, 0
  for i = dropped + 1, length, 2 do
    total = total + ledger[i + 1]
  end
  if dropped > 0 then
    for i = 1, length do
      ledger[i] = ledger[i + dropped]
    end
  end
  return total
end
