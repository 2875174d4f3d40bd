-- Repairs a gate after a script has failed: drops what cannot be read. Comes after examining.lua.
--
-- KEYS   see gate.lua
-- ARGV   see gate.lua
-- Reply  see gate.lua; "wrong" for each key that is of another type: then nothing is changed

read_time()
local is_hash = examination().HASHES
for i, key in ipairs(KEYS) do
  local found = redis.pcall(is_hash[key] and 'HLEN' or 'ZCARD', key)
  if type(found) == 'table' then
    put('wrong', i)
  end
end
if #reply > 0 then
  return { '0', '0', '0', '', '', 'ok', '0', unpack(reply) }
end
redis.call('HDEL', REPLIES, gate)
read_totals()
for _, field in ipairs({ 'mending', 'children', 'now_ms' }) do
  set_total(field, false) -- they are rebuilt
end
examine()
examination().forget_held()
-- An agenda that the script started before it failed is taken over by the next one.
local last = redis.call('ZREVRANGE', CLAIMS, 0, 0)[1]
local agenda = last and string.sub(last, 1, 15)
if last and not redis.call('HGET', AGENDAS, agenda) and not redis.call('ZSCORE', GARBAGE, agenda) then
  redis.call('ZADD', UNFINISHED, 0, agenda)
end
local answered = with_header('', false, 'ok')
write_totals()
return answered
