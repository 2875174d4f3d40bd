-- Removes an entity, what is held of it, and its registered descendants. It comes after
-- serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity
-- Reply  see gate.lua; who was removed is in the reports "deregistered", in order

return serve(false, function()
  examine()
  local entity = ARGV[10]
  drop(entity, 'it was deregistered')
  if registered(entity) then
    families().remove(entity)
  end
end)
