-- Serves one request of one instance, exactly as Coordinator.sync in _coordinator/coordinator.py.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; then the texts of _format.REQUEST, in order, and its numbers packed
-- Reply  the texts of _format.REPLY, in order, and its numbers packed. Or an error, and nothing
--        written: UNSUPPORTED and the version of a server older than 6.2; OLDFORMAT if a limit of
--        the first format is stored; WRONGTYPE and a key that is no hash.
--
-- A limit of another format is answered with the kind "format" and its number, a request with
-- something that no instance has with the kind "invalid": nobody else is to suffer from it.

-- A list of a request; nil if it cannot be one.
local function list_of(text, read, width)
  return #text <= 8 * width and read(text) or nil
end

-- Whether all of a request can be an instance's: then its lists are read, and what would reach
-- further than anything of an instance does is cut. `checked` in _messages.py is the same.
local function is_valid(request)
  request.history = list_of(request.history, pairs_in, 2 * MAX_ENTRIES)
  request.stamped = list_of(request.stamped, pairs_in, 2 * MAX_ENTRIES)
  request.permit_spent = list_of(request.permit_spent, pairs_in, 2 * MAX_ENTRIES)
  request.totals = list_of(request.totals, floats_in, MAX_TOTALS)
  local length = #request.instance
  if not (request.history and request.stamped and request.permit_spent and request.totals)
    or length == 0 or length > MAX_NAME or not fits_request(request)
    or not is_divisible(request) then
    return false
  end
  for _, one in ipairs(request.totals) do
    if one < -MAX_AMOUNT or one > MAX_AMOUNT then
      return false
    end
  end
  request.interval = min(request.interval, ceil(request.lease / FEWEST_INTERVALS))
  request.valid = min(request.valid, MAX_PERMIT_MS)
  return true
end

local function sync()
  local server, version = server_identity()
  local request = read_request(unpack(ARGV, 2))
  if not request then
    return write_reply({ kind = 'format', format = FORMAT })
  end
  if request.format ~= FORMAT then
    return write_reply({ kind = 'format', format = FORMAT, seq = request.seq })
  end
  if not is_valid(request) then
    return write_reply({ kind = 'invalid', format = FORMAT })
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
