-- Writes the registry of a server that has never been used: nothing of any limit can be out.
--
-- KEYS   the registry
-- Reply  1; 0, and nothing written, if the server has data

if redis.call('DBSIZE') > 0 then
  return 0
end
local server = server_identity()
store_registry(KEYS[1], '', new_registry(server, NEVER))
return 1
