-- The limit on seeds that are queued or in hand, and what is done about more.
--
-- limits: seeds (0: any number); drops: whether the lowest go, or else whoever brings and takes seeds slows down.

-- By the books (accepted = queued + leased + done + dead + removed), what is left of all that was accepted.
local function open_seeds(meta, dead)
  local accepted, done, removed = unpack(redis.call('HMGET', meta, 'accepted', 'done', 'removed'))
  return (accepted or 0) - (done or 0) - (removed or 0) - redis.call('HLEN', dead)
end

-- Of those that a crawl drops, so many are set aside, so that one can see what they are.
local MOST_SAMPLED = 100
-- So many of the hosts with seeds set apart are asked for the lowest.
local HOSTS_ASKED = 20

-- Remove the newest of the lowest priority. Suspects stay.
local function drop_lowest(order, base, meta, priorities, parked, dead, excess)
  local sampled = tonumber(redis.call('HGET', meta, 'sampled') or 0)
  local removed, sampled_before = 0, sampled
  while excess > 0 do
    local lowest, host
    for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
      lowest = lowest or redis.call('EXISTS', base .. 'inbox:' .. priority) == 1 and priority or nil
    end
    local hosts = redis.call('HRANDFIELD', parked, HOSTS_ASKED, 'WITHVALUES')
    for i = 1, #hosts, 2 do
      for priority in string.gmatch(hosts[i + 1], '[^,]+') do
        if not lowest or tonumber(priority) < tonumber(lowest) then lowest, host = priority, hosts[i] end
      end
    end
    if not lowest then break end

    local list = base .. (host and 'host:' .. lowest .. ':' .. host or 'inbox:' .. lowest)
    local seeds = (order == 'lifo' and redis.call('LPOP', list, excess) or redis.call('RPOP', list, excess)) or {}
    if host then
      redis.call('HINCRBY', meta, 'parked', -#seeds)
      if redis.call('EXISTS', list) == 0 then unpark(base, parked, lowest, host) end
    end
    for _, seed in ipairs(seeds) do
      if sampled < MOST_SAMPLED then
        bury(meta, dead, {priority = lowest, deaths = 0, seed = seed},
          'dropped: the queue was full (FRONTIER_MAX_SEEDS); of those that a crawl drops, the first are kept here')
        sampled = sampled + 1
      else
        removed = removed + 1
      end
    end
    excess = excess - #seeds
  end
  redis.call('HINCRBY', meta, 'removed', removed)
  redis.call('HINCRBY', meta, 'sampled', sampled - sampled_before)
end

-- To be called when the books are up to date. 1: whoever brings seeds is to wait.
local function enforce(limits, order, base, meta, priorities, parked, dead)
  if limits.seeds == 0 then return 0 end
  local excess = open_seeds(meta, dead) - limits.seeds
  if not limits.drops then return excess >= 0 and 1 or 0 end
  if excess > 0 then drop_lowest(order, base, meta, priorities, parked, dead, excess) end
  return 0
end

-- While there are too many, seeds go out singly, the next after a pause that doubles with each tenth above the limit: of
-- 0.1 s at the limit, and of a minute at most. So whatever the pages bring, a crawl never stands still for good.
local function pause_ms(limits, open)
  return math.min(60000, 100 * 2 ^ (10 * (open / limits.seeds - 1)))
end
