-- push(session, meta, priorities, starts, parked, dead, seen; base, seq, after_pop, order, mode, capacity, error_rate, ttl_ms,
--      links, limits)
--   -> {turn, accepted, filtered, full}
--
-- Enqueue what the filter has not seen, in one atomic step with noting it as seen. After the end of a crawl that begins
-- the next one. full 1: no more start URLs, please. O(links), and O(links * priorities) where the lowest are dropped.
--
-- | key                  | type | meaning                                              |
-- | session              | hash | the worker's last call                               |
-- | meta                 | hash | accepted, filtered, removed, sampled, parked, state, … |
-- | priorities           | zset | the priorities that have an inbox or ready hosts     |
-- | starts               | set  | fingerprints of the start requests admitted          |
-- | parked               | hash | host -> the priorities of its parked seeds           |
-- | dead                 | hash | seeds set aside                                      |
-- | seen                 |      | the dedup's own                                      |
-- | base inbox:<p>       | list | seeds of priority p                                  |
-- | base host:<p>:<host> | list | parked seeds of one host (when the newest comes next) |
--
-- links: priority, fingerprint, kind, seed, … (kind 0: filtered; 1: a start request, admitted once a crawl;
-- 2: neither checked nor noted).
local session, meta, priorities, starts, parked, dead, seen = unpack(KEYS)
local base, seq, after_pop, order = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local dedup, links = dedup_of(seen, meta, unpack(ARGV, 5, 8)), cmsgpack.unpack(ARGV[9])
local limits = cmsgpack.unpack(ARGV[10])

local turn = turn_of(session, seq, after_pop, false)
if turn ~= NEXT then return {turn, 0, 0, 0} end

-- What may be refused (a full server, a filter of other settings) comes first, when nothing is done yet.
local checked = {}
for i = 1, #links, 4 do
  if links[i + 2] ~= 2 then checked[#checked + 1] = links[i + 1] end
end
local fresh = {}
if #checked > 0 then
  local refused
  fresh, refused = admit(dedup, checked)
  if refused then return redis.error_reply(refused) end
end

local accepted, filtered, nth, stamp = 0, 0, 0, stamper(meta)
local batches, levels = {}, {}
for i = 1, #links, 4 do
  local priority, kind, new = links[i], links[i + 2], true
  if kind ~= 2 then
    nth = nth + 1
    new = fresh[nth] == 1
    if kind == 1 then new = redis.call('SADD', starts, links[i + 1]) == 1 end
  end
  if new then
    local batch = batches[priority]
    if not batch then
      batch = {}
      batches[priority] = batch
      levels[#levels + 1] = priority
    end
    batch[#batch + 1] = stamp(links[i + 3])
    accepted = accepted + 1
  else
    filtered = filtered + 1
  end
end

for _, priority in ipairs(levels) do
  enqueue(order, base, meta, priorities, string.format('%.0f', priority), batches[priority])
end
if accepted > 0 then wake(base, meta) end
redis.call('HINCRBY', meta, 'accepted', accepted)
redis.call('HINCRBY', meta, 'filtered', filtered)
redis.call('HSET', session, 'seq', seq, 'popped', 0)
return {turn, accepted, filtered, enforce(limits, order, base, meta, priorities, parked, dead)}
