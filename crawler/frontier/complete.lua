-- complete(session, leases, meta, priorities, busy, parked, dead; base, seq, order, acks, turns) -> {turn, done, stale}
--
-- Acknowledge pages and enqueue those of their children that no filter guards, in one step. A lease that is no longer
-- this worker's is stale: nothing of it counts. O(acks + children + turns).
--
-- | key            | type | meaning                                     |
-- | session        | hash | the worker's last call                      |
-- | leases         | hash | this worker's leases                        |
-- | meta           | hash | accepted, done                              |
-- | priorities     | zset | the priorities that have an inbox           |
-- | busy           | zset | hosts that wait, by their next turn         |
-- | parked         | hash | hosts that have seeds set apart             |
-- | dead           | hash | seeds set aside                             |
-- | base inbox:<p> | list | seeds of priority p                         |
--
-- acks: token, reason ('' for done; else why the seed is set aside), children (priority, seed, …), …
-- turns: host, ms until its next turn, …
local session, leases, meta, priorities, busy, parked, dead = unpack(KEYS)
local base, seq, command = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local acks, turns = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5])

local turn = turn_of(session, seq)
if turn ~= NEXT then return {turn, 0, 0} end

redis.call('HDEL', leases, '') -- frees nothing, but a script that begins so is let through by a full server
local now, done, stale, accepted = now_ms(), 0, 0, 0
for i = 1, #acks, 3 do
  local token, reason, children = acks[i], acks[i + 1], acks[i + 2]
  local text = redis.call('HGET', leases, token)
  if not text then
    stale = stale + 1
  else
    redis.call('HDEL', leases, token)
    if reason == '' then
      done = done + 1
    else
      redis.call('HSET', dead, redis.call('HINCRBY', meta, 'dead_numbers', 1), dead_text(now, reason, lease_of(text)))
    end
    for c = 1, #children, 2 do
      enqueue(command, base, priorities, string.format('%.0f', children[c]), {children[c + 1]})
      accepted = accepted + 1
    end
  end
end

for i = 1, #turns, 2 do
  local host, wait_ms = turns[i], turns[i + 1]
  local turn_ms = redis.call('ZSCORE', busy, host)
  if turn_ms ~= 'inf' then -- a blocked host stays blocked
    if wait_ms > 0 or redis.call('HEXISTS', parked, host) == 1 then
      redis.call('ZADD', busy, now + wait_ms, host)
    else
      redis.call('ZREM', busy, host)
    end
  end
end

redis.call('HINCRBY', meta, 'done', done)
redis.call('HINCRBY', meta, 'accepted', accepted)
redis.call('HSET', session, 'seq', seq)
return {turn, done, stale}
