-- What is known of a limit, as of now. Changes nothing.
--
-- KEYS   those of limit_state.lua
-- Reply  the server's time in milliseconds, as text; the fields of the limit and their values; the
--        labels and totals

return {
  string.format('%.17g', server_time()),
  redis.call('HGETALL', KEYS[1]),
  redis.call('HGETALL', KEYS[3]),
}
