-- A lease as it is stored: "priority deaths alone delay_ms seed", and what a seed goes back as.
local function lease_text(lease)
  return string.format('%s %d %d %d %s', lease.priority, lease.deaths, lease.alone, lease.delay_ms, lease.seed)
end

local function lease_of(text)
  local priority, deaths, alone, delay_ms, seed = string.match(text, '^(%-?%d+) (%d+) (%d) (%d+) (.*)$')
  return {priority = priority, deaths = tonumber(deaths), alone = tonumber(alone), delay_ms = tonumber(delay_ms), seed = seed}
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

-- Put seeds into an inbox, a thousand an RPUSH or LPUSH (Lua unpacks no more than 8,000).
local function enqueue(command, base, priorities, priority, seeds)
  for first = 1, #seeds, 1000 do
    redis.call(command, base .. 'inbox:' .. priority, unpack(seeds, first, math.min(first + 999, #seeds)))
  end
  redis.call('ZADD', priorities, priority, priority)
end

-- Tokens are "sequence number:ordinal": the order in which the seeds were handed out.
local function by_token(a, b)
  local a_seq, a_ordinal = string.match(a, '(%d+):(%d+)')
  local b_seq, b_ordinal = string.match(b, '(%d+):(%d+)')
  if a_seq ~= b_seq then return tonumber(a_seq) < tonumber(b_seq) end
  return tonumber(a_ordinal) < tonumber(b_ordinal)
end

-- Give leases back to the front of the queue, in the order in which they were handed out. The field goes first: a
-- script that frees before it allocates passes a full server.
local function give_back(base, leases, priorities, busy, suspects, tokens)
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
        enqueue('LPUSH', base, priorities, lease.priority, {lease.seed})
      end
      if lease.delay_ms > 0 then redis.call('ZADD', busy, 'XX', now + lease.delay_ms, host_of(lease.seed)) end
      given = given + 1
    end
  end
  return given
end
