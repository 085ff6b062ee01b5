-- finish(meta, priorities, suspects, workers, starting, starts, seen; base, epoch, keep) -> 1 when the crawl is complete, else 0
--
-- Agree that crawl number `epoch` is complete: nothing is queued, nothing is leased by anybody, nobody is starting (or a
-- later crawl has begun). The first to see it ends the crawl, and (unless keep is '1') what was seen is forgotten, so
-- that the next crawl begins anew. O(priorities + workers).
--
-- | key             | type | meaning                                          |
-- | meta            | hash | state, epoch, parked, generation                 |
-- | priorities      | zset | the priorities that have an inbox or ready hosts |
-- | suspects        | list | seeds to be run alone                            |
-- | workers         | zset | worker -> lease deadline, ms                     |
-- | starting        | set  | workers still giving start requests              |
-- | starts          | set  | fingerprints of the start requests admitted      |
-- | seen            |      | the dedup's own                                  |
-- | base inbox:<p>  | list | seeds of priority p                              |
-- | base leases:<w> | hash | leases of worker w                               |
local meta, priorities, suspects, workers, starting, starts, seen = unpack(KEYS)
local base, epoch, keep = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'

local state, current, parked = unpack(redis.call('HMGET', meta, 'state', 'epoch', 'parked'))

local function is_over()
  if state == 'paused' or tonumber(parked or 0) > 0 then return false end
  if redis.call('LLEN', suspects) > 0 or redis.call('SCARD', starting) > 0 then return false end
  for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
    if redis.call('LLEN', base .. 'inbox:' .. priority) > 0 then return false end
  end
  for _, worker in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
    if redis.call('HLEN', base .. 'leases:' .. worker) > 0 then return false end
  end
  return true
end

if not is_over() then return tonumber(current or 0) > epoch and 1 or 0 end
if state == 'running' then
  redis.call('UNLINK', starts)
  if not keep then
    forget({key = seen, meta = meta})
    redis.call('HINCRBY', meta, 'generation', 1)
  end
  redis.call('HSET', meta, 'state', 'complete')
end
return 1
