-- The registrations that were emitted last, in the order of their sequence numbers. It changes
-- nothing, and comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then a sequence number, how many at most
-- Reply  a flat list: sequence number, entity, record, for each with a higher number

local found = redis.call('ZRANGEBYSCORE', EMITTED, '(' .. ARGV[10], '+inf', 'WITHSCORES',
  'LIMIT', 0, ARGV[11])
for i = 1, #found, 2 do
  put(found[i + 1], found[i], registered(found[i]) or '')
end
return reply
