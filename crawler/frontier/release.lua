-- release(session, leases, priorities, busy, suspects, workers, starting, meta; base, worker, seq, mode, tokens) -> {turn, given}
--
-- Give leases back to the front of the queue. mode 'these': the tokens named; 'leave': all, and the worker signs off.
-- O(leases given back).
local session, leases, priorities, busy, suspects, workers, starting, meta = unpack(KEYS)
local base, worker, seq, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local tokens = cmsgpack.unpack(ARGV[5])

local turn = turn_of(session, seq)
if turn ~= NEXT then return {turn, 0} end

redis.call('HDEL', leases, '')
if mode == 'leave' then tokens = redis.call('HKEYS', leases) end
local given = give_back(base, leases, priorities, busy, suspects, tokens)
if mode == 'leave' then
  redis.call('DEL', session)
  redis.call('ZREM', workers, worker)
  redis.call('SREM', starting, worker)
  if redis.call('HGET', meta, 'tester') == worker then redis.call('HDEL', meta, 'tester') end
else
  redis.call('HSET', session, 'seq', seq)
end
return {turn, given}
