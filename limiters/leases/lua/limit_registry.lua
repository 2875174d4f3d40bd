-- The registry of a server process: since when it has kept its data, and up to when something of
-- each limit may be out, and how long a lease of it can count. Without it, nothing is proven.
--
-- A hash: `header` (packed) and `server`, which have one checksum; "=" + name -> the time and the span, with
-- one of their own. The header counts the names, so that a name that is lost is noticed: then all of it
-- counts as lost.

local function registry_check(known, packed)
  return check('registry', known.server .. '\0' .. packed)
end

-- What a server process knows at first.
function registry.new(server, since)
  return {
    format = FORMAT, server = server, since = since, now = NEVER, skew = 0, names = 0,
    names_until = NEVER, names_span = 0, is_new = true,
  }
end

-- What is stored of it, with the time of one name; nil if there is none, or not all of it.
function registry.stored(key, field)
  local read = redis.call('HMGET', key, 'header', 'server', field)
  local header, server, text = read[1], read[2], read[3]
  if not header or not server or #header < CHECK_LENGTH then
    return nil
  end
  local packed = sub(header, 1, -CHECK_LENGTH - 1)
  local known = read_registry(packed)
  if not known or known.format ~= FORMAT then
    return nil
  end
  known.server, known.text, known.names_until = server, header, NEVER
  known.names_span = 0
  if registry_check(known, packed) ~= sub(header, -CHECK_LENGTH)
    or redis.call('HLEN', key) ~= known.names + 2 then
    return nil
  end
  if text then
    local at, span = string.match(unsealed(field, text) or '', '^(%S+) (%d+)$')
    known.names_until, known.names_span = tonumber(at), tonumber(span)
    if not is_whole(known.names_until) or not is_whole(known.names_span) then
      return nil
    end
  end
  known.has_name = text and true
  known.was_until, known.was_span = known.names_until, known.names_span
  return known
end

-- Whether the name of this call is there, or may come. What would find no room does without.
function registry.has_room(known)
  return known.has_name or known.names < MAX_NAMES
end

-- Writes what has changed.
function registry.store(key, field, known)
  local fields = {}
  if registry.has_room(known) and (known.names_until ~= (known.was_until or NEVER)
    or known.names_span ~= (known.was_span or 0)) then
    known.names = known.has_name and known.names or known.names + 1
    fields[1], fields[2] = field, sealed(field, string.format('%.17g %.0f',
      known.names_until, known.names_span))
  end
  local packed = write_registry(known)[1]
  local header = packed .. registry_check(known, packed)
  if header ~= known.text then
    fields[#fields + 1], fields[#fields + 2] = 'header', header
  end
  if known.is_new then
    fields[#fields + 1], fields[#fields + 2] = 'server', known.server
    redis.call('DEL', key)
  end
  if #fields > 0 then
    redis.call('HSET', key, unpack(fields))
  end
end
