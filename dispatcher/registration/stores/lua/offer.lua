-- Releases or holds a message. Comes after serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity, message, metadata (0 or 1)
-- Reply  see gate.lua

return serve(true, function()
  local entity, message = ARGV[10], ARGV[11]
  evict()
  if is_full and not registered(entity) then
    return 'full'
  end
  drop_if_old(entity)
  if registered(entity) then
    tell(entity, '', 0, 0, 0)
    put('messages', '', 1, message)
  elseif bounds.auto == 'on' then
    families().admit(entity, '[null,null]')
    agenda.message = message
  elseif ARGV[12] == '1' then
    hold_metadata(entity, message)
  else
    hold_telemetry(entity, message)
  end
end)
