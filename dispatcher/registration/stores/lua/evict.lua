-- Drops what has been held too long. Comes after serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua
-- Reply  see gate.lua

return serve(false, function()
  examine()
  evict()
end)
