-- A registration has come. It comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity, record
-- Reply  see gate.lua; "cycle" if the entity would be its own ancestor

return serve(function()
  local entity, record = ARGV[9], ARGV[10]
  evict()
  if registered(entity) == record then
    forget_registration(entity)
    return
  end
  local parent = parent_of(record)
  if parent and goes_round(entity, parent) then
    return 'cycle'
  end
  if parent and not registered(parent) then
    hold_registration(entity, record)
  else
    admit(entity, record)
  end
end)
