-- Looks up entities. Changes nothing. Comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entities ...
-- Reply  see gate.lua: "pending", how many entities wait; "links" of those that are
--        registered, and of their ancestors; "answered", how many of the entities were looked for

-- Reading takes less time than the steps of the other scripts.
budget = 400
read_totals()
put('pending', redis.call('ZCARD', PENDING))
local answered = 0
for i = 10, #ARGV do
  if budget > 0 then
    link(ARGV[i])
    answered = answered + 1
  end
end
put('answered', answered)
return with_header('', false, 'ok')
