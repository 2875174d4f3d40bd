-- Continues what an earlier call of this gate has begun. It comes after serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then agenda
-- Reply  see gate.lua; "gone" if another gate has taken it over: it is told all of it

return serve(true, function()
  examine()
  if families().continue(ARGV[10]) ~= gate then
    agenda = nil
    return 'gone'
  end
end)
