-- What is known of the instances of a limit, and how it is stored.

-- Of a member: numbers as text, in this order, then what it holds, what came along with its
-- last grant ("at:cost,...") and its label, which may hold anything; separated by "|".
local NUMBERS = {
  'evicted', 'seq', 'until_ms', 'gone_ms', 'seen_ms', 'need', 'gathering', 'wanted', 'weight',
  'credit', 'share', 'lacks', 'spent', 'reserved', 'born_ms',
}
local MEMBER = '^' .. string.rep('([^|]*)|', #NUMBERS + 2) .. '(.*)$'
local ASK = '<ddddddd' -- need, wanted, weight, credit, lacks, seen_ms, interval_ms

local function load_member(name)
  local stored = redis.call('HGET', MEMBERS, name)
  if not stored then
    return nil
  end
  local fields = { string.match(stored, MEMBER) }
  local one, n = {}, #NUMBERS
  for i, field in ipairs(NUMBERS) do
    one[field] = tonumber(fields[i])
  end
  one.held, one.given, one.label = parse(fields[n + 1]), {}, fields[n + 3]
  for at, cost in string.gmatch(fields[n + 2], '([^:,]+):([^:,]+)') do
    one.given[#one.given + 1] = tonumber(at)
    one.given[#one.given + 1] = tonumber(cost)
  end
  return one
end

local function save_member(name, member)
  local fields, n = {}, #NUMBERS
  for i, field in ipairs(NUMBERS) do
    fields[i] = text(member[field])
  end
  fields[n + 1], fields[n + 3] = text_of(member.held), member.label
  local given = {}
  for i = 1, #member.given, 2 do
    given[#given + 1] = text(member.given[i]) .. ':' .. text(member.given[i + 1])
  end
  fields[n + 2] = table.concat(given, ',')
  redis.call('HSET', MEMBERS, name, table.concat(fields, '|'))
  redis.call('ZADD', GOING, member.gone_ms, name)
end

local function save_ask(name, member, interval_ms)
  if member.wanted > 0 then
    local ask = struct.pack(ASK, member.need, member.wanted, member.weight, member.credit,
      member.lacks, member.seen_ms, interval_ms)
    redis.call('HSET', ASKS, name, ask)
  else
    redis.call('HDEL', ASKS, name)
  end
end
