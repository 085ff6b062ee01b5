-- Where seeds are put: behind all others of their priority, or in front of them; and when that begins a crawl.

-- Stamps what is newly accepted, seed by seed in the order in which it is counted: one in STAMPED_ONE_IN.
local function stamper(meta)
  local number, now = tonumber(redis.call('HGET', meta, 'accepted') or 0), now_ms()
  return function(seed)
    number = number + 1
    return number % STAMPED_ONE_IN == 0 and stamped(seed, now) or seed
  end
end

-- Lua unpacks no more than 8,000 values.
local function push_all(list, seeds)
  for first = 1, #seeds, 1000 do
    redis.call('RPUSH', list, unpack(seeds, first, math.min(first + 999, #seeds)))
  end
end

-- The first of an empty list is stamped, so that the age of a short queue is known, too.
local function put_behind(base, priorities, priority, seeds)
  local inbox = base .. 'inbox:' .. priority
  if redis.call('EXISTS', inbox) == 0 then seeds[1] = stamped(seeds[1], now_ms()) end
  push_all(inbox, seeds)
  redis.call('ZADD', priorities, priority, priority)
end

-- Where its host has seeds set apart, the front is there.
local function put_in_front(base, meta, priorities, priority, seed)
  if redis.call('LPUSHX', base .. 'host:' .. priority .. ':' .. host_of(seed), seed) > 0 then
    redis.call('HINCRBY', meta, 'parked', 1)
  else
    redis.call('LPUSH', base .. 'inbox:' .. priority, seed)
    redis.call('ZADD', priorities, priority, priority)
  end
end

-- order 'lifo': the newest comes next; 'fifo': last.
local function enqueue(order, base, meta, priorities, priority, seeds)
  if order == 'lifo' then
    for _, seed in ipairs(seeds) do put_in_front(base, meta, priorities, priority, seed) end
  else
    put_behind(base, priorities, priority, seeds)
  end
end

-- Nothing is in anybody's hands then, so pages are counted from 0.
local function begin_crawl(base, meta)
  redis.call('HSET', meta, 'state', 'running', 'began_ms', string.format('%.0f', now_ms()), 'pages', 0, 'sampled', 0)
  redis.call('UNLINK', base .. 'pages')
  redis.call('HINCRBY', meta, 'epoch', 1)
end

-- Seeds that come after the end of a crawl begin the next one. Else what they lead to would be noted as seen between
-- two crawls, and the next one would go without it.
local function wake(base, meta)
  if redis.call('HGET', meta, 'state') == 'complete' then begin_crawl(base, meta) end
end

-- The last seed of this priority that was set apart for a host is gone.
local function unpark(base, parked, priority, host)
  redis.call('ZREM', base .. 'ready:' .. priority, host)
  local left = {}
  for other in string.gmatch(redis.call('HGET', parked, host) or '', '[^,]+') do
    if other ~= priority then left[#left + 1] = other end
  end
  if #left > 0 then
    redis.call('HSET', parked, host, table.concat(left, ','))
  else
    redis.call('HDEL', parked, host)
  end
end

-- Remove all that is queued, but the suspects.
local function remove_queued(base, meta, priorities, parked)
  local removed = 0
  local function remove(list)
    removed = removed + redis.call('LLEN', list)
    redis.call('UNLINK', list)
  end
  for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
    remove(base .. 'inbox:' .. priority)
    redis.call('UNLINK', base .. 'ready:' .. priority)
  end
  local hosts = redis.call('HGETALL', parked)
  for i = 1, #hosts, 2 do
    for priority in string.gmatch(hosts[i + 1], '[^,]+') do remove(base .. 'host:' .. priority .. ':' .. hosts[i]) end
  end
  redis.call('UNLINK', priorities, parked)
  redis.call('HSET', meta, 'parked', 0)
  redis.call('HINCRBY', meta, 'removed', removed)
  return removed
end

-- Give leases back to the front of the queue, in the order in which they were handed out. The field goes first: a
-- script that frees before it allocates passes a full server. What is handed out again is counted again; a suspect
-- stays counted until it is done.
local function give_back(base, leases, meta, priorities, busy, suspects, tokens)
  table.sort(tokens, by_token)
  local given, now = 0, now_ms()
  for i = #tokens, 1, -1 do
    local text = redis.call('HGET', leases, tokens[i])
    if text then
      redis.call('HDEL', leases, tokens[i])
      local lease = lease_of(text)
      if lease.alone == 1 then
        redis.call('LPUSH', suspects, text)
      else
        put_in_front(base, meta, priorities, lease.priority, lease.seed)
        uncount_page(base, meta, host_of(lease.seed))
      end
      end_fetch(busy, lease, now + lease.delay_ms)
      given = given + 1
    end
  end
  return given
end
