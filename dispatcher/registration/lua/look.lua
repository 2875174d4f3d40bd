-- What is known, for who only looks. It changes nothing, and comes after gate.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua; then entity
-- Reply  the generation, how many entities are pending, the topmost ancestor of the entity

return { total('generation'), redis.call('ZCARD', PENDING), topmost(ARGV[9]) }
