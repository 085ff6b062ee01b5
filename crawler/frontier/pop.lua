-- pop(session, workers, meta, priorities, busy, parked, suspects, leases, delays, starting, dead;
--     base, worker, seq, after_pop, want, delay_ms, per_host, scan, started, held, limits)
--   -> {turn, generation, state, leases, idle, full, waits}
--
-- Hand out up to `want` seeds under this worker's leases: of those whose host may be fetched now, the highest priority
-- first; within a host in order; of hosts of equal standing the one that has waited longest. A seed whose host must
-- wait, or of which this worker holds enough, is set apart in that host's own list ("parked"), `scan` of them a call
-- at most. O(want + scan + priorities).
--
-- limits: `pages` and `host_pages` are how many seeds this crawl may hand out, in all and of one host (0: any number).
-- Those beyond are removed as soon as it is their turn, so that the crawl ends. What comes back without having been
-- worked on is counted when it is handed out again. `seeds` and `drops`: see _limits.lua; full 1: no more start URLs,
-- please. `ttl_ms` is the dedup's: generation changes when anything that was
-- seen is forgotten.
--
-- | key                  | type | meaning                                                     |
-- | session              | hash | the worker's last call                                      |
-- | workers              | zset | worker -> lease deadline, ms                                |
-- | meta                 | hash | state, generation, parked, tester, testing, pages, slow_ms, … |
-- | priorities           | zset | the priorities that have an inbox or ready hosts            |
-- | busy                 | zset | hosts that wait, by their next turn                         |
-- | parked               | hash | host -> the priorities of its parked seeds, comma-separated |
-- | suspects             | list | seeds to be run alone                                       |
-- | leases               | hash | this worker's leases                                        |
-- | delays               | hash | host -> its own delay, ms                                   |
-- | starting             | set  | workers still giving start requests                         |
-- | dead                 | hash | seeds set aside                                             |
-- | base inbox:<p>       | list | seeds of priority p                                         |
-- | base host:<p>:<host> | list | parked seeds of one host                                    |
-- | base ready:<p>       | zset | hosts with parked seeds whose turn has come, by when it did |
-- | base leases:<w>      | hash | leases of every worker (counted when there is no work)      |
-- | base pages           | hash | host -> pages of it that this crawl handed out, if limited  |
--
-- held: host -> seeds of it that this worker holds already. leases: token, priority, delay_ms, seed, …
-- idle (only when nothing was handed out): queued, leased, starting, ms until a host's turn (-1: none waits), drain.
-- waits: how long those that came with a stamp were queued, ms, … (a reply that is given again says none).
-- A pop that hands nothing out uses up no sequence number.
local session, workers, meta, priorities, busy, parked, suspects, leases, delays, starting, dead = unpack(KEYS)
local base, worker, seq, after_pop, want = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local default_ms, per_host, scan = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local started, held, limits = ARGV[9] == '1', cmsgpack.unpack(ARGV[10]), cmsgpack.unpack(ARGV[11])

local turn = turn_of(session, seq, after_pop, true)
local state, generation, tester, testing, pages =
  unpack(redis.call('HMGET', meta, 'state', 'generation', 'tester', 'testing', 'pages'))
state, generation = state or 'new', tonumber(generation or 0) + slice_at(limits.ttl_ms, now_ms())

local handed, fields, count = {}, {}, 0
local function show(token, priority, delay_ms, seed)
  local at = #handed
  handed[at + 1], handed[at + 2], handed[at + 3], handed[at + 4] = token, priority, delay_ms, seed
end

if turn == AGAIN then -- the reply was lost: the same leases once more
  for i = 1, tonumber(redis.call('HGET', session, 'popped')) do
    local token = seq .. ':' .. i
    local text = redis.call('HGET', leases, token)
    if text then
      local lease = lease_of(text)
      show(token, lease.priority, lease.delay_ms, lease.seed)
    end
  end
end
if turn ~= NEXT then return {turn, generation, state, handed, {}, 0, {}} end

redis.call('HDEL', leases, '') -- frees nothing, but a script that begins so is let through by a full server
if started then redis.call('SREM', starting, worker) end

local now = now_ms()
local has_delays = redis.call('EXISTS', delays) == 1
local function delay_of(host)
  return tonumber(has_delays and redis.call('HGET', delays, host) or default_ms)
end

local waits = {}

-- A host that has a delay is busy from here on until its fetch is over; a day is for when nobody ever says so.
local function hand_out(priority, host, queued, deaths, alone)
  local seed, since_ms = unstamped(queued)
  if since_ms then waits[#waits + 1] = math.max(0, now - since_ms) end
  local delay_ms = delay_of(host)
  if delay_ms > 0 then redis.call('ZADD', busy, now + delay_ms + 86400000, host) end
  count = count + 1
  local token = seq .. ':' .. count
  fields[#fields + 1] = token
  fields[#fields + 1] =
    lease_text({priority = priority, deaths = deaths, alone = alone, delay_ms = delay_ms, seed = seed})
  show(token, priority, delay_ms, seed)
end

-- The first suspect whose host may be fetched now.
local function next_suspect()
  for _, text in ipairs(redis.call('LRANGE', suspects, 0, scan - 1)) do
    local lease = lease_of(text)
    local host = host_of(lease.seed)
    if tonumber(redis.call('ZSCORE', busy, host) or 0) <= now then return text, lease, host end
  end
end

-- Seeds that were in a dead worker's hands are run one at a time, by one worker that holds nothing else: the tester.
-- While it finishes what it holds, a host with a delay that it waits for is kept free for it.
local drain = false
if state ~= 'paused' then
  local holds = redis.call('HLEN', leases) > 0
  if tester == worker and holds then
    drain = true
  elseif not tester or tester == worker or not redis.call('ZSCORE', workers, tester) then
    local text, lease, host = next_suspect()
    if text then
      drain = true
      redis.call('HSET', meta, 'tester', worker, 'testing', holds and delay_of(host) > 0 and host or '')
      if not holds then
        redis.call('LREM', suspects, 1, text)
        hand_out(lease.priority, host, lease.seed, lease.deaths, 1)
      end
    elseif tester then
      redis.call('HDEL', meta, 'tester', 'testing')
    end
  elseif testing and testing ~= '' then
    held[testing] = per_host
  end
end

local scanned = 0
if limits.pages > 0 and state ~= 'paused' then
  want = math.min(want, limits.pages - (pages or 0))
  if want <= 0 and redis.call('EXISTS', priorities, parked) > 0 then remove_queued(base, meta, priorities, parked) end
end

-- As long as there is room, no more goes out than it could take if each page brought but one link that is new.
local open, full, pauses = 0, 0, false
if limits.seeds > 0 and not limits.drops then
  open = open_seeds(meta, dead)
  full, pauses = open >= limits.seeds and 1 or 0, open >= limits.seeds and not drain
  if full == 0 then
    want = math.min(want, limits.seeds - open)
  elseif redis.call('HLEN', leases) > 0 or now < tonumber(redis.call('HGET', meta, 'slow_ms') or 0) then
    want = 0
  else
    want = math.min(want, 1)
  end
end

if state ~= 'paused' and not drain then
  local change_of_parked = 0
  local holding = 0
  for _ in pairs(held) do holding = holding + 1 end

  local removed, pages_of = 0, {}
  local function pages_left(host)
    if limits.host_pages == 0 then return want end
    pages_of[host] = pages_of[host] or tonumber(redis.call('HGET', base .. 'pages', host) or 0)
    return limits.host_pages - pages_of[host]
  end

  local function give(priority, host, seed)
    if not held[host] then holding = holding + 1 end
    held[host] = (held[host] or 0) + 1
    if limits.host_pages > 0 then pages_of[host] = redis.call('HINCRBY', base .. 'pages', host, 1) end
    hand_out(priority, host, seed, 0, 0)
  end

  local function room_for(host) return per_host - (held[host] or 0) end

  -- Hosts whose turn has come are ready, at each priority at which they have parked seeds.
  local due = redis.call('ZRANGEBYSCORE', busy, '-inf', now, 'WITHSCORES', 'LIMIT', 0, scan)
  for i = 1, #due, 2 do
    redis.call('ZREM', busy, due[i])
    for priority in string.gmatch(redis.call('HGET', parked, due[i]) or '', '[^,]+') do
      redis.call('ZADD', base .. 'ready:' .. priority, 'NX', due[i + 1], due[i])
      redis.call('ZADD', priorities, priority, priority)
    end
  end

  local function park(priority, host, seeds)
    push_all(base .. 'host:' .. priority .. ':' .. host, seeds)
    local at = redis.call('HGET', parked, host)
    if not at then
      redis.call('HSET', parked, host, priority)
    elseif not string.find(',' .. at .. ',', ',' .. priority .. ',', 1, true) then
      redis.call('HSET', parked, host, at .. ',' .. priority)
    end
    if not redis.call('ZSCORE', busy, host) then redis.call('ZADD', base .. 'ready:' .. priority, 'NX', now, host) end
    change_of_parked = change_of_parked + #seeds
  end

  -- Round after round, each ready host gives its share, and stands behind those that have not. False: it gave nothing.
  local function serve_round(priority)
    local ready = base .. 'ready:' .. priority
    local hosts = redis.call('ZRANGE', ready, 0, want - count + holding - 1)
    local share = math.max(1, math.floor((want - count) / #hosts))
    local moved = false
    for _, host in ipairs(hosts) do
      if count == want then return false end
      if redis.call('ZSCORE', busy, host) then -- it waits again; `busy` alone says when it is ready
        redis.call('ZREM', ready, host)
        moved = true
      elseif pages_left(host) <= 0 then
        local list = base .. 'host:' .. priority .. ':' .. host
        removed = removed + redis.call('LLEN', list)
        change_of_parked = change_of_parked - redis.call('LLEN', list)
        redis.call('UNLINK', list)
        unpark(base, parked, priority, host)
        moved = true
      elseif room_for(host) > 0 then
        moved = true
        local has_delay = delay_of(host) > 0
        local most = has_delay and 1 or math.min(share, room_for(host), pages_left(host), want - count)
        local seeds = redis.call('LPOP', base .. 'host:' .. priority .. ':' .. host, most) or {}
        for _, seed in ipairs(seeds) do give(priority, host, seed) end
        change_of_parked = change_of_parked - #seeds
        if #seeds < most then
          unpark(base, parked, priority, host)
        elseif has_delay then
          redis.call('ZREM', ready, host)
        else
          redis.call('ZADD', ready, 'XX', now, host)
        end
      end
    end
    return moved
  end

  -- With no host that waits, none that has parked seeds and no delay, the queue is a plain list.
  local plain = default_ms == 0 and not has_delays and redis.call('EXISTS', busy, parked) == 0

  local function serve_inbox(priority)
    local apart, hosts = {}, {}
    while count < want and scanned < scan do
      local seeds = redis.call('LPOP', base .. 'inbox:' .. priority, math.min(want - count, scan - scanned))
      if not seeds then break end
      scanned = scanned + #seeds
      for _, seed in ipairs(seeds) do
        local host = host_of(seed)
        local seeds_apart = apart[host]
        if pages_left(host) <= 0 then
          removed = removed + 1
        elseif seeds_apart then
          seeds_apart[#seeds_apart + 1] = seed
        elseif room_for(host) > 0
          and (plain or not redis.call('ZSCORE', busy, host) and redis.call('HEXISTS', parked, host) == 0) then
          give(priority, host, seed)
        else
          apart[host] = {seed}
          hosts[#hosts + 1] = host
        end
      end
    end
    for _, host in ipairs(hosts) do park(priority, host, apart[host]) end
    return #hosts > 0
  end

  local function serve_ready(priority)
    repeat until count == want or not serve_round(priority)
  end

  local priority = redis.call('ZREVRANGE', priorities, 0, 0)[1]
  while priority and count < want and scanned < scan do
    serve_ready(priority)
    -- Of what was set apart, some may belong to a host that is ready, and only had older seeds to come first.
    if serve_inbox(priority) then serve_ready(priority) end
    if redis.call('EXISTS', base .. 'inbox:' .. priority, base .. 'ready:' .. priority) == 0 then
      redis.call('ZREM', priorities, priority)
    end
    priority = redis.call('ZREVRANGEBYSCORE', priorities, '(' .. priority, '-inf', 'LIMIT', 0, 1)[1]
  end
  if change_of_parked ~= 0 then redis.call('HINCRBY', meta, 'parked', change_of_parked) end
  if removed > 0 then redis.call('HINCRBY', meta, 'removed', removed) end
  if count > 0 then redis.call('HINCRBY', meta, 'pages', count) end
end

if count > 0 then
  for first = 1, #fields, 1000 do
    redis.call('HSET', leases, unpack(fields, first, math.min(first + 999, #fields)))
  end
  redis.call('HSET', session, 'seq', seq, 'popped', count)
  if pauses then redis.call('HSET', meta, 'slow_ms', string.format('%.0f', now + pause_ms(limits, open))) end
  return {turn, generation, state, handed, {}, full, waits}
end

local queued = redis.call('LLEN', suspects) + tonumber(redis.call('HGET', meta, 'parked') or 0)
for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
  queued = queued + redis.call('LLEN', base .. 'inbox:' .. priority)
end
local leased, everybody = 0, redis.call('ZRANGE', workers, 0, -1)
for _, other in ipairs(everybody) do
  leased = leased + redis.call('HLEN', base .. 'leases:' .. other)
end
local wait_ms = -1
local nearest = redis.call('ZRANGEBYSCORE', busy, '-inf', '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
if scanned >= scan then
  wait_ms = 0 -- there is more to look at
elseif nearest[2] then
  wait_ms = math.max(0, tonumber(nearest[2]) - now)
end
return {turn, generation, state, handed,
  {queued, leased, redis.call('SCARD', starting), wait_ms, drain and 1 or 0, #everybody}, full, {}}
