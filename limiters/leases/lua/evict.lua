-- Marks an instance, so that it is granted nothing more and gives back what it holds.
--
-- KEYS   members
-- ARGV   instance
-- Reply  whether it is known: 1 or 0
--
-- The first field of what is known of a member says whether it is evicted.

local stored = redis.call('HGET', KEYS[1], ARGV[1])
if not stored then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], '1' .. string.sub(stored, 2))
return 1
