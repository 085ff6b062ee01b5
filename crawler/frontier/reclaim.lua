-- reclaim(workers, meta, busy, suspects, dead, starting; base, worker, lease_ms, limit, max_deaths)
--   -> {restarted, suspects, dead}
--
-- Take the leases of workers that have not been heard of for lease_ms: their seeds are suspects, to be run alone; one
-- whose worker died while it ran alone `max_deaths` times is set aside. After a restart of the server everybody gets
-- lease_ms to report first; restarted is 1 for the worker that found it, so that it has the log written anew. O(limit).
--
-- | key              | type | meaning                                                |
-- | workers          | zset | worker -> lease deadline, ms                           |
-- | meta             | hash | run_id, grace_ms, grace_by, dead_numbers, workers_lost |
-- | busy             | zset | hosts that wait, by their next turn                    |
-- | suspects         | list | seeds to be run alone                                  |
-- | dead             | hash | seeds set aside                                        |
-- | starting         | set  | workers still giving start requests                    |
-- | base leases:<w>  | hash | leases of worker w                                     |
-- | base session:<w> | hash | its session                                            |
local workers, meta, busy, suspects, dead, starting = unpack(KEYS)
local base, me, lease_ms, limit, max_deaths = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

redis.call('HDEL', meta, '') -- frees nothing, but a script that begins so is let through by a full server
local now = now_ms()
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local known, grace_ms, grace_by = unpack(redis.call('HMGET', meta, 'run_id', 'grace_ms', 'grace_by'))
if known ~= run_id then
  grace_ms, grace_by = known and now + lease_ms or 0, me
  redis.call('HSET', meta, 'run_id', run_id, 'grace_ms', grace_ms, 'grace_by', grace_by)
end
-- The finder is told each time: its first answer may have been lost.
if tonumber(grace_ms) > now then return {grace_by == me and 1 or 0, 0, 0} end

local suspected, died = 0, 0
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)) do
  local leases = base .. 'leases:' .. worker
  local tokens = redis.call('HKEYS', leases)
  table.sort(tokens, by_token)
  for i = 1, math.min(#tokens, limit) do
    local lease = lease_of(redis.call('HGET', leases, tokens[i]))
    redis.call('HDEL', leases, tokens[i])
    end_fetch(busy, lease, now + lease.delay_ms)
    if lease.alone == 1 then lease.deaths = lease.deaths + 1 end
    if lease.deaths >= max_deaths then
      bury(meta, dead, lease, 'its worker died ' .. lease.deaths .. ' times while it ran alone')
      died = died + 1
    else
      redis.call('RPUSH', suspects, lease_text(lease))
      suspected = suspected + 1
    end
  end
  limit = limit - math.min(#tokens, limit)
  if redis.call('EXISTS', leases) == 0 then
    redis.call('ZREM', workers, worker)
    redis.call('HINCRBY', meta, 'workers_lost', 1)
    redis.call('DEL', base .. 'session:' .. worker)
    redis.call('SREM', starting, worker)
  end
  if limit == 0 then break end
end
return {0, suspected, died}
