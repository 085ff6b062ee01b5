-- finish(meta, priorities, suspects, workers, starting, starts, seen; base, epoch, keep) -> 1 when the crawl is complete, else 0
--
-- Agree that crawl number `epoch` is complete: nothing is queued, nothing is leased by anybody, nobody is starting. The
-- first to see it ends the crawl, and (unless keep is '1') what was seen is forgotten, so that the next crawl begins
-- anew. O(priorities + workers).
local meta, priorities, suspects, workers, starting, starts, seen = unpack(KEYS)
local base, epoch, keep = ARGV[1], ARGV[2], ARGV[3] == '1'

local state, current, parked = unpack(redis.call('HMGET', meta, 'state', 'epoch', 'parked'))
if state == 'complete' or current ~= epoch then return 1 end
if state ~= 'running' then return 0 end
if tonumber(parked or 0) > 0 or redis.call('LLEN', suspects) > 0 or redis.call('SCARD', starting) > 0 then return 0 end
for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
  if redis.call('LLEN', base .. 'inbox:' .. priority) > 0 then return 0 end
end
for _, worker in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  if redis.call('HLEN', base .. 'leases:' .. worker) > 0 then return 0 end
end

redis.call('UNLINK', starts)
if not keep then
  forget({key = seen, meta = meta})
  redis.call('HINCRBY', meta, 'generation', 1)
end
redis.call('HSET', meta, 'state', 'complete')
return 1
