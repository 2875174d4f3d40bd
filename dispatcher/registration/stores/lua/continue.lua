-- Continues the agenda of an earlier call of this gate. Comes after serving.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then agenda
-- Reply  see gate.lua; "gone" if another gate has taken it over, which receives all of it

return serve(true, function()
  examine()
  if families().continue(ARGV[10]) ~= gate then
    agenda = nil
    return 'gone'
  end
end)
