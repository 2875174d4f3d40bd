-- Forgets an entity, what is held of it, and its registered descendants. It comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity
-- Reply  see gate.lua; who was removed is in the reports "deregistered", in order

return serve(function()
  local entity = ARGV[9]
  drop(entity, 'it was deregistered')
  if not registered(entity) then
    return
  end
  local removed, i = { entity }, 1
  while removed[i] do
    local start = prefix(removed[i])
    for _, member in ipairs(beginning(CHILDREN, start)) do
      removed[#removed + 1] = string.sub(member, #start + 1)
    end
    i = i + 1
  end
  for _, one in ipairs(removed) do
    local parent = parent_of(registered(one))
    if parent then
      redis.call('ZREM', CHILDREN, prefix(parent) .. one)
    end
    redis.call('HDEL', ENTITIES, one)
    report('deregistered', one, 1, 0, 0)
  end
  add('generation', 1)
end)
