-- What was spent on an amount, by time: _ledger.py in Lua. It is a list { at, cost, at, cost,
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
function ledger.floats_in(text)
  if not text or #text % 8 ~= 0 then
    return nil
  end
  local values, wrong = doubles(text), 0
  for i = 1, #values do
    wrong = wrong + values[i] * 0 -- of what is not finite, no number
  end
  return wrong == 0 and values or nil
end

-- The same for pairs, of which the first is a whole number.
function ledger.pairs_in(text)
  if not text or #text % 16 ~= 0 then
    return nil
  end
  local values, wrong, last = doubles(text), 0, 0
  for i = 1, #values, 2 do
    local at = values[i]
    wrong = wrong + at % 1 + values[i + 1] * 0 -- of what is not finite, no number
    at = at < 0 and -at or at
    last = at > last and at or last
  end
  return wrong == 0 and last <= MAX_WHOLE and values or nil
end

function ledger.packed(values)
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
function ledger.slice_end(at, period)
  local width = max(1, floor(period / SLICES))
  return ceil(at / width) * width
end

-- How much longer than a duration that is measured by several clocks something counts.
function ledger.guard_for(duration)
  return max(GUARD_MS, ceil(duration * GUARD_MS / 1000))
end

-- How long an entry counts after its stamp: the period, and a guard.
function ledger.counts_for(period)
  return period + ledger.guard_for(period)
end

-- The position of the first entry whose stamp is not before `at`.
local function first_from(entries, at)
  local low, high = 0, #entries / 2
  for _ = 1, #entries do
    if low >= high then
      break
    end
    local middle = floor((low + high) / 2)
    if entries[2 * middle + 1] < at then
      low = middle + 1
    else
      high = middle
    end
  end
  return 2 * low + 1
end

-- Counts `cost` until a period after `at`.
function ledger.add(entries, at, cost)
  if cost <= 0 then
    return
  end
  local position = first_from(entries, at)
  if entries[position] == at then
    entries[position + 1] = entries[position + 1] + cost
    return
  end
  for i = #entries, 1, -1 do
    if i < position then
      break
    end
    entries[i + 2] = entries[i]
  end
  entries[position], entries[position + 1] = at, cost
end

-- Adds `part` of the entries of another ledger.
function ledger.merge(entries, other, part)
  for i = 1, #other, 2 do
    ledger.add(entries, other[i], other[i + 1] * (part or 1))
  end
end

-- What a request says was spent on something that is worth `most`: no more than that, so that it
-- takes nothing from others; and only what still counts after `since`.
function ledger.believed(entries, most, since)
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

-- Takes `cost` back from the entry at `at`, as far as there is so much; how much it was.
function ledger.subtract(entries, at, cost)
  local position = first_from(entries, at)
  if entries[position] ~= at then
    return 0
  end
  local before = entries[position + 1]
  local left = before - cost
  if left > FLOAT_ERROR * before then
    entries[position + 1] = left
    return cost
  end
  table.remove(entries, position)
  table.remove(entries, position)
  return before
end

-- `part` of every entry, and the rest, so that both have the same profile in time.
function ledger.split(entries, part)
  if part >= 1 then
    return entries, {}
  end
  local taken = {}
  if part > 0 then
    local rest = {}
    for i = 1, #entries, 2 do
      local at, cost = entries[i], entries[i + 1]
      taken[i], taken[i + 1] = at, cost * part
      rest[i], rest[i + 1] = at, cost - cost * part
    end
    entries = rest
  end
  return taken, entries
end

-- Drops the entries up to `since`; the sum of the others.
function ledger.total(entries, since)
  local dropped = 0
  for i = 1, #entries, 2 do
    if entries[i] > since then
      break
    end
    dropped = i + 1
  end
  local length, total = #entries, 0
  for i = dropped + 1, length, 2 do
    total = total + entries[i + 1]
  end
  if dropped > 0 then
    for i = 1, length do
      entries[i] = entries[i + dropped]
    end
  end
  return total
end
