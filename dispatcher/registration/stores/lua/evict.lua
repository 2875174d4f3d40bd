-- Drops what has been held too long. It comes after families.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua
-- Reply  see gate.lua

return serve(false, function()
  evict()
end)
