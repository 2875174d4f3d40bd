-- Encodes messages for a reader. Comes after bucket.lua.
--
-- For each an answer, the lengths of its id, of what is stored and of why it is dead, and all three,
-- "<I4I4I2". Without its body, what is stored is only the owner's length and the owner.

local answers, texts, told_bytes = {}, {}, 0

local function tell(id, stored, status, time, with_body)
  local state = state_of(redis.call('HGET', STATES, id))
  if not with_body or status == IS_PROCESSING then
    stored = string.sub(stored, 1, 1 + #owner_of(stored))
  end
  answers[#answers + 1] = answer(DONE, status, time, state)
  local why = status == IS_DEAD and reason_of(state) or ''
  texts[#texts + 1] = struct.pack('<I4I4I2', #id, #stored, #why) .. id .. stored .. why
  told_bytes = told_bytes + #stored
end
