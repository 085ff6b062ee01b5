-- status(meta, priorities, busy, suspects, dead, workers, starting; base) -> JSON
--
-- One atomic look at a spider's frontier, O(priorities + workers + blocked hosts). Reads only.
--
-- | key             | type   | meaning                                   |
-- | meta            | hash   | counters and state                        |
-- | priorities      | zset   | the priorities that have an inbox         |
-- | busy            | zset   | hosts that wait                           |
-- | suspects        | list   | seeds to be run alone                     |
-- | dead            | hash   | seeds set aside                           |
-- | workers         | zset   | worker -> lease deadline, ms              |
-- | starting        | set    | workers still giving start requests       |
-- | base inbox:<p>  | list   | seeds of priority p                       |
-- | base leases:<w> | hash   | leases of worker w                        |
-- | base parked     | hash   | hosts that have seeds set apart           |
local meta, priorities, busy, suspects, dead, workers, starting = unpack(KEYS)
local base = ARGV[1]

local time = redis.call('TIME')
local counts = {}
local raw = redis.call('HGETALL', meta)
for i = 1, #raw, 2 do counts[raw[i]] = raw[i + 1] end
local function count(name) return tonumber(counts[name] or 0) end

local inboxes, queued = {}, 0
for _, priority in ipairs(redis.call('ZREVRANGE', priorities, 0, -1)) do
  local length = redis.call('LLEN', base .. 'inbox:' .. priority)
  inboxes[priority] = length
  queued = queued + length
end

local held, leased = {}, 0
local registered = redis.call('ZRANGE', workers, 0, -1, 'WITHSCORES')
for i = 1, #registered, 2 do
  local leases = redis.call('HLEN', base .. 'leases:' .. registered[i])
  held[registered[i]] = {tonumber(registered[i + 1]), leases}
  leased = leased + leases
end

local waiting = redis.call('LLEN', suspects)
return cjson.encode({
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000),
  state = counts.state or 'new',
  epoch = count('epoch'),
  accepted = count('accepted'),
  queued = queued + count('parked') + waiting,
  leased = leased,
  done = count('done'),
  dead = redis.call('HLEN', dead),
  removed = count('removed'),
  pages = count('pages'),
  max_pages = count('max_pages'),
  max_seeds = count('max_seeds'),
  filtered = count('filtered'),
  parked = count('parked'),
  suspects = waiting,
  hosts = redis.call('ZCARD', busy),
  hosts_blocked = #redis.call('ZRANGEBYSCORE', busy, 'inf', 'inf'),
  hosts_apart = redis.call('HLEN', base .. 'parked'),
  starting = redis.call('SCARD', starting),
  workers_lost = count('workers_lost'),
  dedup = counts.dedup or '',
  seen = count('seen'),
  slices = counts.slices or '',
  inboxes = inboxes,
  workers = held,
})
