-- reclaim(workers, meta, priorities, busy, suspects, dead, starting; base, lease_ms, limit, max_deaths)
--   -> {restarted, suspects, dead}
--
-- Take the leases of workers that have not been heard of for lease_ms: their seeds are suspects, to be run alone; one
-- whose worker died while it ran alone `max_deaths` times is set aside. After a restart of the server everybody gets
-- lease_ms to report first. O(limit).
--
-- | key              | type | meaning                                      |
-- | workers          | zset | worker -> lease deadline, ms                 |
-- | meta             | hash | run_id, grace_ms, dead_numbers, workers_lost |
-- | suspects         | list | seeds to be run alone                        |
-- | dead             | hash | seeds set aside                              |
-- | base leases:<w>  | hash | leases of worker w                           |
-- | base session:<w> | hash | its session                                  |
local workers, meta, priorities, busy, suspects, dead, starting = unpack(KEYS)
local base, lease_ms, limit, max_deaths = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local now = now_ms()
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local known, grace_ms = unpack(redis.call('HMGET', meta, 'run_id', 'grace_ms'))
if known ~= run_id then
  redis.call('HSET', meta, 'run_id', run_id, 'grace_ms', known and now + lease_ms or 0)
  if known then return {1, 0, 0} end
elseif tonumber(grace_ms or 0) > now then
  return {0, 0, 0}
end

local suspected, died = 0, 0
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 100)) do
  local leases = base .. 'leases:' .. worker
  local tokens = redis.call('HKEYS', leases)
  table.sort(tokens, by_token)
  for i = 1, math.min(#tokens, limit) do
    local lease = lease_of(redis.call('HGET', leases, tokens[i]))
    redis.call('HDEL', leases, tokens[i])
    if lease.alone == 1 then lease.deaths = lease.deaths + 1 end
    if lease.deaths >= max_deaths then
      local reason = 'its worker died ' .. lease.deaths .. ' times while it ran alone'
      redis.call('HSET', dead, redis.call('HINCRBY', meta, 'dead_numbers', 1), dead_text(now, reason, lease))
      died = died + 1
    else
      redis.call('RPUSH', suspects, lease_text(lease))
      suspected = suspected + 1
    end
    if lease.delay_ms > 0 then redis.call('ZADD', busy, 'XX', now + lease.delay_ms, host_of(lease.seed)) end
  end
  limit = limit - math.min(#tokens, limit)
  if redis.call('EXISTS', leases) == 0 then
    redis.call('ZREM', workers, worker)
    redis.call('HINCRBY', meta, 'workers_lost', 1)
    redis.call('DEL', base .. 'session:' .. worker)
    redis.call('SREM', starting, worker)
    if redis.call('HGET', meta, 'tester') == worker then redis.call('HDEL', meta, 'tester') end
  end
  if limit == 0 then break end
end
return {0, suspected, died}
