-- Registers a query, and deletes queries that were not registered again for a long time. Runs
-- after fence.lua.
--
-- KEYS   known (sorted set: query -> when it was registered last)
-- ARGV   query, kept_ms (how long a query is remembered)
-- Reply  "ok"

redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 'ok' }
