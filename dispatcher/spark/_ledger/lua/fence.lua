-- The tasks that may send for a query, and the code that all its scripts share. The keys share one hash tag:
--   fence     hash: epoch (grows with each claim), token (of the run that claimed last), claim
--             (the last one, so that it can be sent again), checkpoint, label, seen_ms
--   senders   sorted set: "<epoch>|<slot>|<id>" of each task that may send -> the end of its permission
--   stream    hash, one for each checkpoint: batch (the last one claimed), finished (the last one
--             that ended), signature (what cuts its batches), generation, turn, turned_ms,
--             time_kind (the kind of the stored times), acknowledged (the number of sequences of which
--             rows of that batch are acknowledged), division ("<batch> <how it is divided>")
--   sequences hash, one for each checkpoint, generation and turn: a sequence -> its
--             entry, see entry.py; "!<pack>" -> "!<batch>" if it is sent by subjects;
--             "@<length of lane><lane> <subject>" -> the latest time of a subject of a lane that was sent
--   totals    hash: name -> sum over all micro-batches that ended
-- A task may send until its entry in `senders` expires; it may renew the entry. A run that
-- has claimed a higher epoch waits until all entries of older ones have expired.

local parts = redis.call('TIME')
local now = parts[1] * 1000 + math.floor(parts[2] / 1000)

-- Returns how much longer any sender for which `counts(epoch, slot, id)` is true may send; 0 if there is none.
local function longest(senders, counts)
  local left = 0
  local found = redis.call('ZRANGEBYSCORE', senders, '(' .. now, '+inf', 'WITHSCORES')
  for i = 1, #found, 2 do
    local epoch, slot, id = string.match(found[i], '^(%d+)|([^|]*)|(.*)$')
    if counts(epoch, slot, id) then
      left = math.max(left, found[i + 1] - now)
    end
  end
  return left
end
