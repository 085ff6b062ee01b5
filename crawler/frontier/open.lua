-- open(session, leases, priorities, busy, suspects, workers, starting, meta, seen;
--      base, worker, seq, lease_ms, project, begin, starting, held, mode, capacity, error_rate, ttl_ms,
--      max_pages, max_seeds)
--   -> {was, epoch, generation, missing, project, began_ms}
--
-- Begin a session, or begin it again after it was lost: this worker's leases that it no longer holds go back to the
-- queue, and those that it holds but the server does not know are named. begin '1': a frontier whose crawl is complete
-- begins a new one; a new frontier always does. was: the last call that the server knew of (-1: none). It is numbered
-- like any call, so that a Redis that forgets it shows; but no number is too high for it. O(leases).
--
-- | key                  | type | meaning                                               |
-- | session              | hash | the worker's last call                                |
-- | leases               | hash | this worker's leases                                  |
-- | priorities           | zset | the priorities that have an inbox or ready hosts      |
-- | busy                 | zset | hosts that wait, by their next turn                   |
-- | suspects             | list | seeds to be run alone                                 |
-- | workers              | zset | worker -> lease deadline, ms                          |
-- | starting             | set  | workers still giving start requests                   |
-- | meta                 | hash | state, project, epoch, began_ms, generation, parked, pages, max_…      |
-- | seen                 |      | the dedup's own                                       |
-- | base inbox:<p>       | list | seeds of priority p                                   |
-- | base host:<p>:<host> | list | parked seeds of one host                              |
-- | base pages           | hash | host -> pages of it that this crawl handed out        |
local session, leases, priorities, busy, suspects, workers, starting, meta, seen = unpack(KEYS)
local base, worker, seq, lease_ms, project = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local begin, has_starts, held = ARGV[6] == '1', ARGV[7] == '1', cmsgpack.unpack(ARGV[8])

local owner = redis.call('HGET', meta, 'project')
if owner and owner ~= project then return {-2, 0, 0, {}, owner, 0} end
local dedup = dedup_of(seen, meta, unpack(ARGV, 9, 12))
local _, refused = admit(dedup, {})
if refused then return redis.error_reply(refused) end

redis.call('HDEL', leases, '') -- frees nothing, but a script that begins so is let through by a full server
local state = redis.call('HGET', meta, 'state')
if not state or (begin and state == 'complete') then
  redis.call('HSET', meta, 'project', project)
  begin_crawl(base, meta)
end
if begin then redis.call('HSET', meta, 'max_pages', ARGV[13], 'max_seeds', ARGV[14]) end -- for those who look

local known, lost = {}, {}
for _, token in ipairs(held) do known[token] = true end
for _, token in ipairs(redis.call('HKEYS', leases)) do
  if known[token] then
    known[token] = nil
  else
    lost[#lost + 1] = token
  end
end
give_back(base, leases, meta, priorities, busy, suspects, lost)
local missing = {}
for token in pairs(known) do missing[#missing + 1] = token end

-- When the reply to an open is lost, it is repeated, and is to say the same once more.
local last, opened, was = unpack(redis.call('HMGET', session, 'seq', 'opened', 'was'))
if tonumber(opened or nil) ~= seq then was = last or -1 end
redis.call('HSET', session, 'seq', seq, 'popped', 0, 'opened', seq, 'was', was)
redis.call('ZADD', workers, now_ms() + lease_ms, worker)
if has_starts then redis.call('SADD', starting, worker) end
local epoch, generation, began_ms = unpack(redis.call('HMGET', meta, 'epoch', 'generation', 'began_ms'))
generation = tonumber(generation or 0) + slice_at(dedup.ttl_ms, dedup.now_ms)
return {tonumber(was), tonumber(epoch or 0), generation, missing, project, tonumber(began_ms or 0)}
