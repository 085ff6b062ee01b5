-- What every verb with a sequence number begins with: each worker numbers its calls, and a session remembers the last
-- one that was applied. So a call whose reply was lost can be repeated, and a Redis that lost its last moments shows.
local LOST, NEXT, AGAIN = 0, 1, 2

-- NEXT: apply it. AGAIN: it was applied already. LOST: the session expired, or what came before this call is gone.
--
-- A pop that hands nothing out uses up no number. So one that was given up, and arrives late, may take a number that
-- its worker then gives to another call; hence each call tells whether the one before it handed seeds out (after_pop
-- '1'), and whether it may do so itself. What does not fit is LOST, and so is all that follows it.
local function turn_of(session, seq, after_pop, is_pop)
  local last, popped = unpack(redis.call('HMGET', session, 'seq', 'popped'))
  if not last or seq > last + 1 then return LOST end
  local was_pop = popped ~= '0'
  if seq == last + 1 then return was_pop == (after_pop == '1') and NEXT or LOST end
  if seq == tonumber(last) and was_pop ~= is_pop then return LOST end
  return AGAIN
end
