-- A message has come. It comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity, message, metadata (0 or 1)
-- Reply  see gate.lua

return serve(function()
  local entity, message = ARGV[9], ARGV[10]
  evict()
  if registered(entity) then
    tell(entity, '', { message })
  elseif bounds.auto == '1' then
    admit(entity, '[null,null]', message)
  elseif ARGV[11] == '1' then
    hold_metadata(entity, message)
  else
    hold_telemetry(entity, message)
  end
end)
