-- clear(meta, priorities, parked, suspects, workers, starts, seen; base, forget) -> removed
--
-- Remove all that is queued; what is leased goes on. forget '1': as if the crawl began now: what was seen is forgotten,
-- and pages are counted anew. O(priorities + hosts with parked seeds), and O(leases) when forgetting.
--
-- | key                  | type | meaning                                          |
-- | meta                 | hash | removed, parked, generation, pages               |
-- | priorities           | zset | the priorities that have an inbox or ready hosts |
-- | parked               | hash | host -> the priorities of its parked seeds       |
-- | suspects             | list | seeds to be run alone                            |
-- | workers              | zset | worker -> lease deadline, ms                     |
-- | starts               | set  | start requests admitted                          |
-- | seen                 |      | the dedup's own                                  |
-- | base inbox:<p>       | list | seeds of priority p                              |
-- | base host:<p>:<host> | list | parked seeds of one host                         |
-- | base ready:<p>       | zset | hosts with parked seeds whose turn has come      |
-- | base leases:<w>      | hash | leases of worker w                               |
-- | base pages           | hash | host -> pages of it that this crawl handed out   |
local meta, priorities, parked, suspects, workers, starts, seen = unpack(KEYS)
local base, forgetting = ARGV[1], ARGV[2] == '1'

local removed = remove_queued(base, meta, priorities, parked)
local suspected = redis.call('LLEN', suspects)
redis.call('UNLINK', suspects)
redis.call('HINCRBY', meta, 'removed', suspected)

if forgetting then
  redis.call('UNLINK', starts)
  forget({key = seen, meta = meta})
  redis.call('HINCRBY', meta, 'generation', 1)
  recount_pages(base, meta, workers, suspects)
  redis.call('HDEL', meta, 'sampled')
end
return removed + suspected
