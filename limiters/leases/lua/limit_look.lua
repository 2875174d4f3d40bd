-- What is known of a limit, as of now. Changes nothing.
--
-- KEYS   those of limit_state.lua
-- Reply  the server's time in milliseconds, as text; the fields of the limit and their values; the
--        labels and totals. Or the error that a request would have: OLDFORMAT, or WRONGTYPE and a key

return occupied() or {
  string.format('%.17g', server_time()),
  redis.call('HGETALL', LIMIT),
  redis.call('HGETALL', PEOPLE),
}
