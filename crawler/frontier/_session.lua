-- What every verb with a sequence number begins with: each worker numbers its calls, and a session remembers the last
-- one that was applied. So a call whose reply was lost can be repeated, and a Redis that lost its last moments shows.
local LOST, NEXT, AGAIN = 0, 1, 2

-- NEXT: apply it. AGAIN: it was applied already. LOST: the session expired, or what came before this call is gone, or
-- its number was used up by a pop that came late, long after a repeated one had handed nothing out.
local function turn_of(session, seq, is_pop)
  local last, popped = unpack(redis.call('HMGET', session, 'seq', 'popped'))
  if not last or seq > last + 1 then return LOST end
  if seq == last + 1 then return NEXT end
  if seq == tonumber(last) and (is_pop or false) ~= (popped ~= '0') then return LOST end
  return AGAIN
end
