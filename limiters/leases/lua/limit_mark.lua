-- Writes the registry of a server that has never been used: nothing of any limit can be out.
--
-- KEYS   the registry
-- Reply  1; 0, and nothing written, if the server has data

if redis.call('DBSIZE') > 0 then
  return 0
end
local server = server_identity()
registry.store(KEYS[1], '', registry.new(server, NEVER))
return 1
