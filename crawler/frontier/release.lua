-- release(session, leases, priorities, busy, suspects, workers, starting, meta; base, worker, seq, after_pop, mode, tokens)
--   -> {turn, given}
--
-- Give leases back to the front of the queue. mode 'these': the tokens named; 'leave': all, and the worker signs off.
-- O(leases given back).
--
-- | key                  | type | meaning                                          |
-- | session              | hash | the worker's last call                           |
-- | leases               | hash | this worker's leases                             |
-- | priorities           | zset | the priorities that have an inbox or ready hosts |
-- | busy                 | zset | hosts that wait, by their next turn              |
-- | suspects             | list | seeds to be run alone                            |
-- | workers              | zset | worker -> lease deadline, ms                     |
-- | starting             | set  | workers still giving start requests              |
-- | meta                 | hash | parked, pages                                    |
-- | base inbox:<p>       | list | seeds of priority p                              |
-- | base host:<p>:<host> | list | parked seeds of one host                         |
-- | base pages           | hash | host -> pages of it that this crawl handed out   |
local session, leases, priorities, busy, suspects, workers, starting, meta = unpack(KEYS)
local base, worker, seq, after_pop, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local tokens = cmsgpack.unpack(ARGV[6])

local turn = turn_of(session, seq, after_pop, false)
if turn ~= NEXT then return {turn, 0} end

redis.call('HDEL', leases, '') -- frees nothing, but a script that begins so is let through by a full server
if mode == 'leave' then tokens = redis.call('HKEYS', leases) end
local given = give_back(base, leases, meta, priorities, busy, suspects, tokens)
if mode == 'leave' then
  redis.call('DEL', session)
  redis.call('ZREM', workers, worker)
  redis.call('SREM', starting, worker)
else
  redis.call('HSET', session, 'seq', seq, 'popped', 0)
end
return {turn, given}
