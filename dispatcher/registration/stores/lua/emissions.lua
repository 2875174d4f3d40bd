-- Returns the last emissions, in the order of their sequence numbers. Changes
-- nothing. Comes after gate.lua and examining.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then a sequence number, the maximum number of emissions
-- Reply  a flat list: "1" if some are missing until they are repaired; sequence number, entity,
--        record, for each with a higher number

read_totals()
put(examination().is_out_of_order() and '1' or '')
local last = string.format('%.0f', total('sequence'))
local found = redis.call(
  'ZRANGEBYSCORE', EMITTED, '(' .. ARGV[10], last, 'WITHSCORES', 'LIMIT', 0, ARGV[11]
)
for i = 1, #found, 2 do
  put(found[i + 1], found[i], registered(found[i]) or '')
end
return reply
