-- What every verb with a sequence number begins with: each worker numbers its calls, and a session remembers the last
-- one that was applied. So a call whose reply was lost can be repeated, and a Redis that lost its last moments shows.
local NEXT, AGAIN, LOST = 1, 2, 0

-- NEXT: apply it. AGAIN: it was applied already. LOST: the session expired, or what came before this call is gone.
local function turn_of(session, seq)
  local last = tonumber(redis.call('HGET', session, 'seq') or nil)
  if not last or seq > last + 1 then return LOST end
  return seq == last + 1 and NEXT or AGAIN
end
