-- Who may send for a query, and what all its scripts have in common. Its keys share one hash tag:
--   fence     hash: epoch (grows with each claim), token (of the run that claimed last), claim
--             (the last one, so that it can be sent again), checkpoint, label, seen_ms
--   senders   sorted set: "<epoch>|<slot>|<id>" of each task that may send -> until when
--   stream    hash, one for each checkpoint: batch (the last one claimed), finished (the last one
--             that ended), signature (what cuts its batches), generation, turn, turned_ms,
--             time_kind (in which kind of time sequences are remembered), acknowledged (of how many
--             sequences rows of that batch were acknowledged), division ("<batch> <how it is divided>")
--   sequences hash, one for each checkpoint, generation and turn: a sequence -> what was
--             acknowledged of it, see entry.py; "!<pack>" -> "!<batch>" if it is sent by subjects;
--             "@<length of lane><lane> <subject>" -> up to which time a subject of a lane was sent
--   totals    hash: name -> sum over all micro-batches that ended
-- A task may send until its entry in `senders` runs out. It runs out by itself, or it is
-- renewed; so whoever has claimed a higher epoch waits until there is no other.

local parts = redis.call('TIME')
local now = parts[1] * 1000 + math.floor(parts[2] / 1000)

-- How much longer a sender for which `counts(epoch, slot, id)` holds may send; 0 if there is none.
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
