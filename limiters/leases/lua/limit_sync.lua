-- Serves one request of one instance, exactly as Coordinator.sync in _coordinator/coordinator.py.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; then the texts of _format.REQUEST, in order, and its numbers packed
-- Reply  the texts of _format.REPLY, in order, and its numbers packed. Or an error, and nothing
--        written: UNSUPPORTED and the version of a server older than 6.2; OLDFORMAT if a limit of
--        the first format is stored; WRONGTYPE and a key that is no hash; NOTFINITE if a number
--        of the request is not, or cannot be.
--
-- A limit of another format is answered with the kind "format" and its number.

-- Whether all numbers in the lists of a request are finite: another one would spread to what is
-- stored of all.
local function has_finite_lists(request)
  return floats_in(request.history) and floats_in(request.stamped)
    and floats_in(request.permit_spent) and floats_in(request.totals)
end

local function sync()
  local server, version = server_identity()
  local request, damaged = read_request(unpack(ARGV, 2))
  if damaged or request and not has_finite_lists(request) then
    return redis.error_reply('NOTFINITE')
  end
  if not request then
    return write_reply({ kind = 'format', format = FORMAT })
  end
  if request.format ~= FORMAT then
    return write_reply({ kind = 'format', format = FORMAT, seq = request.seq })
  end
  local failure, format = load(ARGV[1], request.instance, server, version)
  if format then
    return write_reply({ kind = 'format', format = format, seq = request.seq })
  end
  if failure then
    return failure
  end
  local clock = server_time()
  local now = confirmed_time(request, server, clock)
  if not now then
    return write_reply({ kind = 'retry', format = FORMAT, seq = request.seq, server = server })
  end
  local reply, record = serve(request, server, now)
  store_time(server, now, clock - now)
  save(record)
  reply.format, reply.seq, reply.server, reply.now = FORMAT, request.seq, server, now
  return write_reply(reply)
end

return sync()
