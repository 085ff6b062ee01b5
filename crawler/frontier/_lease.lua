-- What a lease is, and what its end means for the host of its seed.
--
-- As it is stored: "priority deaths alone delay_ms seed". deaths: workers that died while it ran alone; alone 1: it
-- does so now; delay_ms not 0: its host is busy until this fetch is reported.
local function lease_text(lease)
  -- Joined, as string.format ends a short string at its first zero byte.
  return lease.priority .. ' ' .. lease.deaths .. ' ' .. lease.alone .. ' ' .. lease.delay_ms .. ' ' .. lease.seed
end

local function lease_of(text)
  local priority, deaths, alone, delay_ms, seed = string.match(text, '^(%-?%d+) (%d+) (%d) (%d+) (.*)$')
  return {priority = priority, deaths = tonumber(deaths), alone = tonumber(alone), delay_ms = tonumber(delay_ms), seed = seed}
end

-- Some queued seeds say when they came: "\4hhhhhhhhhhh", the time in milliseconds in hexadecimal, stands in front of
-- them as long as they are queued. Of so many that come, one does.
local STAMPED_ONE_IN = 128
local STAMP = '^\4(' .. string.rep('%x', 11) .. ')()'

-- A seed without its stamp, and the time that this said. What only begins like one was put in by somebody else, and is
-- left as it is, for whoever gets it to set aside.
local function unstamped(seed)
  if string.byte(seed) ~= 4 then return seed end
  local time, behind = string.match(seed, STAMP)
  if not time then return seed end
  return string.sub(seed, behind), tonumber(time, 16)
end

local function stamped(seed, now)
  local bare = unstamped(seed)
  return '\4' .. string.format('%011x', now) .. bare
end

-- The host of a seed, as Scrapy names its download slot: lower case, without user, port or brackets.
local function host_of(seed)
  local authority = string.match(seed, '://([^/?#\1-\31]*)') or ''
  authority = string.match(authority, '.*@(.*)') or authority
  return string.lower(string.match(authority, '^%[([^%]]*)%]') or string.match(authority, '^[^:]*'))
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Tokens are "sequence number:ordinal": the order in which the seeds were handed out.
local function by_token(a, b)
  local a_seq, a_ordinal = string.match(a, '(%d+):(%d+)')
  local b_seq, b_ordinal = string.match(b, '(%d+):(%d+)')
  if a_seq ~= b_seq then return tonumber(a_seq) < tonumber(b_seq) end
  return tonumber(a_ordinal) < tonumber(b_ordinal)
end

-- The fetch that kept a host busy is over: its next turn is at `turn_ms`. A blocked host stays blocked.
local function end_fetch(busy, lease, turn_ms)
  if lease.delay_ms == 0 then return end
  local host = host_of(lease.seed)
  if redis.call('ZSCORE', busy, host) ~= 'inf' then redis.call('ZADD', busy, turn_ms, host) end
end

-- A crawl's pages: the seeds that were handed out, in all and (where that is limited, so only where it is counted) of
-- each host.
local function uncount_page(base, meta, host)
  redis.call('HINCRBY', meta, 'pages', -1)
  if redis.call('HEXISTS', base .. 'pages', host) == 1 then redis.call('HINCRBY', base .. 'pages', host, -1) end
end

-- Begin to count anew. What is in a worker's hands, or was in a dead one's, counts still.
local function recount_pages(base, meta, workers, suspects)
  local by_host, pages = redis.call('UNLINK', base .. 'pages') == 1, 0
  local function count(text)
    pages = pages + 1
    if by_host then redis.call('HINCRBY', base .. 'pages', host_of(lease_of(text).seed), 1) end
  end
  for _, text in ipairs(redis.call('LRANGE', suspects, 0, -1)) do count(text) end
  for _, worker in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
    local leases = redis.call('HGETALL', base .. 'leases:' .. worker)
    for i = 2, #leases, 2 do count(leases[i]) end
  end
  redis.call('HSET', meta, 'pages', pages)
end

-- Set a seed aside, as "ms priority deaths length-of-reason reason seed". So many are kept; of more, but the number.
local MOST_DEAD = 100000

local function bury(meta, dead, lease, reason)
  if redis.call('HLEN', dead) >= MOST_DEAD then
    redis.call('HINCRBY', meta, 'removed', 1)
    return
  end
  redis.call('HSET', dead, redis.call('HINCRBY', meta, 'dead_numbers', 1),
    string.format('%.0f %s %d %d ', now_ms(), lease.priority, lease.deaths, #reason) .. reason .. ' ' ..
    unstamped(lease.seed))
end
