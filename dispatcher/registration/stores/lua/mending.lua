-- Rebuilds derived keys where something is missing. Comes after examining.lua.
--
-- Children and emitted are derived from entities, waiting from registrations. Each script rebuilds a
-- portion. Meanwhile, the total `mending` stores which key is being examined, and how far.

local function add_child(parent, entity)
  if parent then
    add('children', redis.call('ZADD', CHILDREN, 0, prefix(parent) .. entity))
  end
end

local function remove_child(parent, entity)
  if parent then
    add('children', -redis.call('ZREM', CHILDREN, prefix(parent) .. entity))
  end
end

-- Repairs a portion. Returns whether something is left.
local mending = once(function()
  local MENDED_AT_ONCE = 20
  -- The keys to examine, in order.
  local FOLLOWING = {
    entities = 'emitted', emitted = 'children', children = 'registrations',
    registrations = 'messages',
  }

  local menders = {}

  function menders.entities(cursor)
    local found = redis.call('HSCAN', ENTITIES, cursor, 'COUNT', MENDED_AT_ONCE)
    for i = 1, #found[2], 2 do
      local entity, record = found[2][i], found[2][i + 1]
      local is_read, parent = parsed(record)
      if not is_read then
        redis.call('HDEL', ENTITIES, entity)
        changed(entity)
        report('corrupt', entity, 1, 0, 0, 'its record cannot be read')
      else
        add_child(parent, entity)
        if not redis.call('ZSCORE', EMITTED, entity) then
          emit(entity)
        end
      end
    end
    return found[1]
  end

  function menders.emitted(cursor)
    local found = redis.call('ZSCAN', EMITTED, cursor, 'COUNT', MENDED_AT_ONCE)
    for i = 1, #found[2], 2 do
      if not registered(found[2][i]) then
        redis.call('ZREM', EMITTED, found[2][i])
      end
    end
    return found[1]
  end

  function menders.children(cursor)
    local found = redis.call('ZSCAN', CHILDREN, cursor, 'COUNT', MENDED_AT_ONCE)
    for i = 1, #found[2], 2 do
      local member = found[2][i]
      local size, from = string.match(member, '^(%d%d?%d?%d?%d?%d?%d?%d?%d?):()')
      local ends = size and from + tonumber(size)
      local record = size and registered(string.sub(member, ends))
      if not record or parent_of(record) ~= string.sub(member, from, ends - 1) then
        redis.call('ZREM', CHILDREN, member)
      end
    end
    return found[1]
  end

  function menders.registrations(cursor)
    local found = redis.call('HSCAN', REGISTRATIONS, cursor, 'COUNT', MENDED_AT_ONCE)
    for i = 1, #found[2], 2 do
      local entity, stored = found[2][i], found[2][i + 1]
      local parent = parent_of(string.sub(stored, 16))
      if not whole(string.sub(stored, 1, 15)) or not parent then
        redis.call('HDEL', REGISTRATIONS, entity)
        report('corrupt', entity, 1, 0, 0, 'its registration cannot be read')
      else
        redis.call('ZADD', WAITING, 0, prefix(parent) .. string.sub(stored, 1, 15) .. entity)
      end
    end
    return found[1]
  end

  -- A message that is in no order any more: its entity counts it as lost when it is set free.
  function menders.messages(cursor)
    local found = redis.call('HSCAN', MESSAGES, cursor, 'COUNT', MENDED_AT_ONCE)
    for i = 1, #found[2], 2 do
      if not redis.call('ZSCORE', ORDER, found[2][i]) then
        redis.call('HDEL', MESSAGES, found[2][i])
      end
    end
    return found[1]
  end

  return function()
    local what, cursor = string.match(totals.mending or '', '^(%a+) (%d+)$')
    if not menders[what or ''] then
      if not is_to_be_mended then
        return false
      end
      what, cursor = 'entities', '0'
    end
    cursor = menders[what](cursor)
    if cursor == '0' then
      what = FOLLOWING[what]
    end
    if what then
      set_total('mending', what .. ' ' .. cursor)
      return true
    end
    set_total('children', redis.call('ZCARD', CHILDREN))
    set_total('mending', false)
    return false
  end
end)
