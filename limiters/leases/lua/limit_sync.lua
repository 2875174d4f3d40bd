-- Serves one request of one instance, exactly as Coordinator.sync in _coordinator/coordinator.py.
--
-- KEYS   those of limit_state.lua
-- ARGV   the name of the limit; then the texts of _format.REQUEST and the lists of REQUEST_BOUND, in
--        order, and the numbers of both packed
-- Reply  the texts of _format.REPLY and the lists of REPLY_BOUND, in order, and the numbers of both
--        packed. Or an error, and nothing written: UNSUPPORTED and the version of a server older than 6.2; OLDFORMAT if a limit of
--        the first format is stored; WRONGTYPE and a key that is no hash.
--
-- A limit of another format is answered with the kind "format" and its number, a request with
-- something that no instance has with the kind "invalid": nobody else is to suffer from it.

-- Reads the lists of a request of one bound; whether all of them can be ones.
local function has_lists(said)
  for _, name in ipairs({ 'history', 'stamped', 'permit_spent', 'debts', 'refunds', 'moved' }) do
    said[name] = #said[name] <= 16 * MAX_ENTRIES and ledger.pairs_in(said[name])
    if not said[name] then
      return false
    end
  end
  return true
end

-- Whether all of a request can be an instance's: then its lists are read, and what would reach
-- further than anything of an instance does is cut. `checked` in _messages.py is the same.
local function is_valid(request)
  local length = #request.instance
  if #request.bounds == 0 or length == 0 or length > MAX_NAME or not fits_request(request)
    or not state.is_divisible(request) then
    return false
  end
  for _, said in ipairs(request.bounds) do
    if not has_lists(said) or not state.fits_bound(said) then
      return false
    end
  end
  request.totals = #request.totals <= 8 * MAX_TOTALS and ledger.floats_in(request.totals)
  if not request.totals then
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
  local failure, format = coordinator.load(ARGV[1], request.instance, server, version)
  if format then
    return write_reply({ kind = 'format', format = format, seq = request.seq })
  end
  if failure then
    return failure
  end
  local clock = server_time()
  local now = coordinator.confirmed_time(request, server, clock)
  if not now then
    return write_reply({ kind = 'retry', format = FORMAT, seq = request.seq, server = server })
  end
  local reply, record = coordinator.serve(request, server, now)
  coordinator.store_time(server, now, clock - now)
  state.save(record)
  reply.format, reply.seq, reply.server, reply.now = FORMAT, request.seq, server, now
  return write_reply(reply)
end

return sync()
