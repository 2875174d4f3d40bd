-- Reads messages of any owner. Comes after bucket.lua and told.lua.
--
-- ARGV   ids: one after the other (length of the id; id), "<I4"
-- Reply  the server's time in microseconds; how many of the ids were processed, which is not all
--        if together they are too long; each that exists, as told.lua encodes it

local ids, at, looked = ARGV[1], 1, 0

for _ = 1, #ids do
  if at > #ids or told_bytes >= MOST_BYTES then
    break
  end
  local id_length
  id_length, at = struct.unpack('<I4', ids, at)
  local id = string.sub(ids, at, at + id_length - 1)
  at = at + id_length
  looked = looked + 1
  local stored = redis.call('HGET', MESSAGES, id)
  if stored then
    local status, time = where_is(id)
    tell(id, stored, status, time, true)
  end
end
return { NOW_US, looked, table.concat(answers), table.concat(texts) }
