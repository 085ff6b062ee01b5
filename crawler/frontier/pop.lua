-- pop(session, workers, meta, priorities, busy, parked, suspects, leases, delays, starting;
--     base, worker, seq, want, delay_ms, per_host, scan, started, held) -> {turn, generation, state, leases, idle}
--
-- Hand out up to `want` seeds under this worker's leases: of those whose host may be fetched now, the highest priority
-- first, FIFO within a host. A seed whose host must wait, or of which this worker holds enough, is set apart in that
-- host's own list ("parked"). O(want + scan).
--
-- | key                  | type | meaning                                                     |
-- | session              | hash | the worker's last call                                      |
-- | workers              | zset | worker -> lease deadline, ms                                |
-- | meta                 | hash | state, generation, parked, tester                           |
-- | priorities           | zset | the priorities that have an inbox                           |
-- | busy                 | zset | hosts that wait or have parked seeds, by their next turn    |
-- | parked               | hash | host -> the priorities of its parked seeds, comma-separated |
-- | suspects             | list | seeds to be run alone                                       |
-- | leases               | hash | this worker's leases                                        |
-- | delays               | hash | host -> its own delay, ms                                   |
-- | starting             | set  | workers still giving start requests                         |
-- | base inbox:<p>       | list | seeds of priority p                                         |
-- | base host:<p>:<host> | list | parked seeds of one host                                    |
-- | base leases:<w>      | hash | leases of every worker (counted when there is no work)      |
--
-- held: host -> seeds of it that this worker holds already. leases: token, priority, delay_ms, seed, …
-- idle (only when nothing was handed out): queued, leased, starting, ms until a host's turn (-1: none waits), drain.
-- A pop that hands nothing out uses up no sequence number.
local session, workers, meta, priorities, busy, parked, suspects, leases, delays, starting = unpack(KEYS)
local base, worker, seq, want, default_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local per_host, scan, started = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local held = cmsgpack.unpack(ARGV[9])

local turn = turn_of(session, seq)
local state, generation, tester = unpack(redis.call('HMGET', meta, 'state', 'generation', 'tester'))
state, generation = state or 'new', tonumber(generation or 0)
if turn == LOST then return {turn, generation, state, {}, {}} end

local handed, fields, count = {}, {}, 0
local function show(token, lease)
  local at = #handed
  handed[at + 1], handed[at + 2], handed[at + 3], handed[at + 4] = token, lease.priority, lease.delay_ms, lease.seed
end

if turn == AGAIN then -- the reply was lost: the same leases once more
  for i = 1, tonumber(redis.call('HGET', session, 'popped') or 0) do
    local token = seq .. ':' .. i
    local text = redis.call('HGET', leases, token)
    if text then show(token, lease_of(text)) end
  end
  return {turn, generation, state, handed, {}}
end

local function hand_out(lease)
  count = count + 1
  local token = seq .. ':' .. count
  fields[#fields + 1] = token
  fields[#fields + 1] = lease_text(lease)
  show(token, lease)
end

local has_delays = redis.call('EXISTS', delays) == 1
local function delay_of(host)
  return tonumber(has_delays and redis.call('HGET', delays, host) or default_ms)
end

-- A host that has a delay is busy until its fetch is reported; this is for when no report ever comes.
local function unreported_ms(delay_ms) return math.max(600000, 10 * delay_ms) end

if started then redis.call('SREM', starting, worker) end
local drain = 0
if state ~= 'paused' and want > 0 then
  -- Seeds that were in a dead worker's hands are run one at a time, by one worker that holds nothing else.
  if redis.call('LLEN', suspects) > 0 then
    if not tester or not redis.call('ZSCORE', workers, tester) then
      tester = worker
    end
    if tester == worker then
      drain = 1
      local lease = lease_of(redis.call('LINDEX', suspects, 0))
      local host, now = host_of(lease.seed), now_ms()
      if redis.call('HLEN', leases) == 0 and tonumber(redis.call('ZSCORE', busy, host) or 0) <= now then
        redis.call('LPOP', suspects)
        lease.alone, lease.delay_ms = 1, delay_of(host)
        if lease.delay_ms > 0 then redis.call('ZADD', busy, now + unreported_ms(lease.delay_ms), host) end
        hand_out(lease)
      end
    end
  elseif tester then
    tester = nil
    redis.call('HDEL', meta, 'tester')
  end

  if drain == 0 then
    local now = now_ms()
    local parked_change = 0

    local function give(priority, host, seed)
      local delay_ms = delay_of(host)
      held[host] = (held[host] or 0) + 1
      if delay_ms > 0 then redis.call('ZADD', busy, now + unreported_ms(delay_ms), host) end
      hand_out({priority = priority, deaths = 0, alone = 0, delay_ms = delay_ms, seed = seed})
      return delay_ms
    end

    local function park(priority, host, seed)
      redis.call('RPUSH', base .. 'host:' .. priority .. ':' .. host, seed)
      local at = redis.call('HGET', parked, host)
      if not at then
        redis.call('HSET', parked, host, priority)
      elseif not string.find(',' .. at .. ',', ',' .. priority .. ',', 1, true) then
        redis.call('HSET', parked, host, at .. ',' .. priority)
      end
      redis.call('ZADD', busy, 'NX', now, host)
      parked_change = parked_change + 1
    end

    local function unpark(priority, host) -- its last seed of this priority is gone
      local left = {}
      for other in string.gmatch(redis.call('HGET', parked, host) or '', '[^,]+') do
        if other ~= priority then left[#left + 1] = other end
      end
      if #left > 0 then
        redis.call('HSET', parked, host, table.concat(left, ','))
      else
        redis.call('HDEL', parked, host)
        if tonumber(redis.call('ZSCORE', busy, host) or 0) <= now then redis.call('ZREM', busy, host) end
      end
    end

    -- Hosts whose turn has come, the longest waiting first, by the priorities of their parked seeds.
    local waiting, levels, seen_level = {}, {}, {}
    local function add_level(priority)
      if not seen_level[priority] then
        seen_level[priority] = true
        levels[#levels + 1] = priority
      end
    end
    for _, host in ipairs(redis.call('ZRANGEBYSCORE', busy, '-inf', now, 'LIMIT', 0, want)) do
      local at = redis.call('HGET', parked, host)
      if not at then
        redis.call('ZREM', busy, host)
      else
        for priority in string.gmatch(at, '[^,]+') do
          add_level(priority)
          waiting[priority] = waiting[priority] or {}
          table.insert(waiting[priority], host)
        end
      end
    end
    for _, priority in ipairs(redis.call('ZREVRANGE', priorities, 0, -1)) do add_level(priority) end
    table.sort(levels, function(a, b) return tonumber(a) > tonumber(b) end)

    -- With no host that waits, none that is full and no delay, the queue is a plain list.
    local plain = default_ms == 0 and not has_delays and redis.call('EXISTS', busy) == 0
    local served, scanned = {}, 0

    for _, priority in ipairs(levels) do
      -- Round after round, each waiting host gives one seed.
      local hosts, again = waiting[priority] or {}, true
      while again and count < want do
        again = false
        for i, host in ipairs(hosts) do
          if host and count < want and not served[host] and (held[host] or 0) < per_host then
            local seed = redis.call('LPOP', base .. 'host:' .. priority .. ':' .. host)
            if not seed then
              hosts[i] = false
              unpark(priority, host)
            else
              parked_change = parked_change - 1
              again = true
              if give(priority, host, seed) > 0 then
                served[host] = true -- one at a time
              else
                redis.call('ZADD', busy, 'XX', now, host) -- behind those that were not served
              end
            end
          end
        end
      end

      local inbox = base .. 'inbox:' .. priority
      while count < want and scanned < scan do
        local seeds = redis.call('LPOP', inbox, math.min(want - count, scan - scanned))
        if not seeds then
          redis.call('ZREM', priorities, priority)
          break
        end
        scanned = scanned + #seeds
        for _, seed in ipairs(seeds) do
          local host = host_of(seed)
          if (held[host] or 0) >= per_host then
            park(priority, host, seed)
            plain = false
          elseif plain then
            give(priority, host, seed)
          else
            local turn_ms = redis.call('ZSCORE', busy, host)
            if turn_ms and (tonumber(turn_ms) > now or redis.call('HEXISTS', parked, host) == 1) then
              park(priority, host, seed)
            else
              give(priority, host, seed)
            end
          end
        end
      end
      if count == want or scanned >= scan then break end
    end
    if parked_change ~= 0 then redis.call('HINCRBY', meta, 'parked', parked_change) end
  end
end

if count > 0 then
  for first = 1, #fields, 1000 do
    redis.call('HSET', leases, unpack(fields, first, math.min(first + 999, #fields)))
  end
  redis.call('HSET', session, 'seq', seq, 'popped', count)
  if drain == 1 then redis.call('HSET', meta, 'tester', worker) end
  return {turn, generation, state, handed, {}}
end

if drain == 1 then redis.call('HSET', meta, 'tester', worker) end
local queued = redis.call('LLEN', suspects) + tonumber(redis.call('HGET', meta, 'parked') or 0)
for _, priority in ipairs(redis.call('ZRANGE', priorities, 0, -1)) do
  queued = queued + redis.call('LLEN', base .. 'inbox:' .. priority)
end
local leased = 0
for _, other in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  leased = leased + redis.call('HLEN', base .. 'leases:' .. other)
end
local wait_ms, now = -1, now_ms()
local nearest = redis.call('ZRANGEBYSCORE', busy, '-inf', '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
if nearest[2] then wait_ms = math.max(0, tonumber(nearest[2]) - now) end
return {turn, generation, state, handed, {queued, leased, redis.call('SCARD', starting), wait_ms, drain}}
