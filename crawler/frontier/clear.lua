-- clear(meta, priorities, parked, suspects, starts, seen; base, forget) -> removed
--
-- Remove all that is queued; what is leased goes on. forget '1': what was seen is forgotten too, so that the same
-- links are taken again. O(priorities + hosts with parked seeds).
--
-- | key                  | type | meaning                                          |
-- | meta                 | hash | removed, parked, generation                      |
-- | priorities           | zset | the priorities that have an inbox or ready hosts |
-- | parked               | hash | host -> the priorities of its parked seeds       |
-- | suspects             | list | seeds to be run alone                            |
-- | starts               | set  | start requests admitted                          |
-- | seen                 |      | the dedup's own                                  |
-- | base inbox:<p>       | list | seeds of priority p                              |
-- | base host:<p>:<host> | list | parked seeds of one host                         |
-- | base ready:<p>       | zset | hosts with parked seeds whose turn has come      |
local meta, priorities, parked, suspects, starts, seen = unpack(KEYS)
local base, forgetting = ARGV[1], ARGV[2] == '1'

local removed = 0
local function drop(list)
  removed = removed + redis.call('LLEN', list)
  redis.call('UNLINK', list)
end

for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
  drop(base .. 'inbox:' .. priority)
  redis.call('UNLINK', base .. 'ready:' .. priority)
end
local hosts = redis.call('HGETALL', parked)
for i = 1, #hosts, 2 do
  for priority in string.gmatch(hosts[i + 1], '[^,]+') do drop(base .. 'host:' .. priority .. ':' .. hosts[i]) end
end
drop(suspects)
redis.call('UNLINK', priorities, parked)

if forgetting then
  redis.call('UNLINK', starts)
  forget({key = seen, meta = meta})
  redis.call('HINCRBY', meta, 'generation', 1)
end
redis.call('HSET', meta, 'parked', 0)
redis.call('HINCRBY', meta, 'removed', removed)
return removed
