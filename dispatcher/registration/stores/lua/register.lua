-- Carries out registrations. Comes after serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity, record, for each
-- Reply  see gate.lua; "taken", how many are carried out; "cycle" if the next one is refused, as
--        that entity would be its own ancestor; "full" if it would need memory that the server has not
--
-- Many are carried out as if one came after the other: behind one that sets others free the rest
-- waits for another call, when those are registered.

-- Whether `entity` would be its own ancestor below `parent`, or they have no end.
local function goes_round(entity, parent)
  local above, found = { [parent] = true }, { parent }
  for i = 1, MOST_DEEP + 1 do
    local one = found[i]
    if not one then
      break
    end
    if one == entity or i > MOST_DEEP then
      return true
    end
    for _, record in ipairs({ held_registration(one) or '', registered(one) or '' }) do
      local another = parent_of(record)
      if another and not above[another] then
        above[another] = true
        found[#found + 1] = another
      end
    end
  end
  return false
end

-- Whether what `entity` holds, or what waits for it, comes out of memory.
local function frees(entity)
  return number_of(entity) or #beginning(WAITING, prefix(entity), 1) > 0
end

-- Why the registration is refused, if it is.
local function take(entity, record)
  local parent = parent_of(record)
  local has_place = not parent or rooted(parent)
  if number_of(entity) then
    examine_held()
  end
  drop_if_old(entity)
  if has_place and registered(entity) == record then
    forget_registration(entity)
  elseif parent and goes_round(entity, parent) then
    return 'cycle'
  elseif is_full and not (has_place and frees(entity)) and held_registration(entity) ~= record then
    return 'full'
  elseif has_place then
    families().admit(entity, record)
  else
    hold_registration(entity, record)
  end
end

return serve(true, function()
  evict()
  local taken, wrong = 0, nil
  for i = 10, #ARGV, 2 do
    wrong = take(ARGV[i], ARGV[i + 1])
    if wrong then
      break
    end
    taken = taken + 1
    if agenda and #beginning(WAITING, prefix(ARGV[i]), 1) > 0 then
      break
    end
  end
  put('taken', taken)
  return wrong
end)
