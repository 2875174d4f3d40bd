-- The server that a script runs on: its clock, its identity, and whether it is new enough. A test
-- that compares both implementations puts its own functions in the place of these.

-- Whole milliseconds of the server's clock.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The server's run id, which changes with each start, and its version.
local function server_identity()
  local info = redis.call('INFO', 'server')
  return string.match(info, 'run_id:(%w+)'), string.match(info, 'redis_version:([%w.]+)')
end
