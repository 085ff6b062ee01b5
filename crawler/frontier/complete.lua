-- complete(session, leases, meta, priorities, busy, parked, dead; base, seq, after_pop, order, acks, turns, limits)
--   -> {turn, done, stale}
--
-- Report fetches, acknowledge pages, and enqueue those of their children that no filter guards, in one step. A lease
-- that is no longer this worker's is stale: nothing of it counts. O(acks + children + turns).
--
-- | key                  | type | meaning                                               |
-- | session              | hash | the worker's last call                                |
-- | leases               | hash | this worker's leases                                  |
-- | meta                 | hash | accepted, done, parked, dead_numbers                  |
-- | priorities           | zset | the priorities that have an inbox or ready hosts      |
-- | busy                 | zset | hosts that wait, by their next turn                   |
-- | parked               | hash | host -> the priorities of its parked seeds            |
-- | dead                 | hash | seeds set aside                                       |
-- | base inbox:<p>       | list | seeds of priority p                                   |
-- | base host:<p>:<host> | list | parked seeds of one host (when the newest comes next) |
--
-- acks: token, reason ('' for done; else why the seed is set aside), children (priority, seed, …), …
-- turns: token, ms until its host may be fetched next, …
local session, leases, meta, priorities, busy, parked, dead = unpack(KEYS)
local base, seq, after_pop, order = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local acks, turns, limits = cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[7])

local turn = turn_of(session, seq, after_pop, false)
if turn ~= NEXT then return {turn, 0, 0} end

redis.call('HDEL', leases, '') -- frees nothing, but a script that begins so is let through by a full server
local now, done, stale, accepted, stamp = now_ms(), 0, 0, 0, nil

for i = 1, #turns, 2 do
  local token, turn_ms = turns[i], now + turns[i + 1]
  local text = redis.call('HGET', leases, token)
  if text then
    local lease = lease_of(text)
    if lease.delay_ms > 0 then
      end_fetch(busy, lease, turn_ms)
      lease.delay_ms = 0 -- from here on the host is no longer this lease's affair
      redis.call('HSET', leases, token, lease_text(lease))
    else
      redis.call('ZADD', busy, 'GT', turn_ms, host_of(lease.seed))
    end
  end
end

for i = 1, #acks, 3 do
  local token, reason, children = acks[i], acks[i + 1], acks[i + 2]
  local text = redis.call('HGET', leases, token)
  if not text then
    stale = stale + 1
  else
    redis.call('HDEL', leases, token)
    local lease = lease_of(text)
    end_fetch(busy, lease, now + lease.delay_ms)
    if reason == '' then
      done = done + 1
    else
      bury(meta, dead, lease, reason)
    end
    if #children > 0 then stamp = stamp or stamper(meta) end
    for c = 1, #children, 2 do
      enqueue(order, base, meta, priorities, string.format('%.0f', children[c]), {stamp(children[c + 1])})
    end
    accepted = accepted + #children / 2
  end
end

redis.call('HINCRBY', meta, 'done', done)
redis.call('HINCRBY', meta, 'accepted', accepted)
redis.call('HSET', session, 'seq', seq, 'popped', 0)
if accepted > 0 then enforce(limits, order, base, meta, priorities, parked, dead) end
return {turn, done, stale}
