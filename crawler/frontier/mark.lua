-- mark(state, sites; lifetime_ms, site, page, timestamp, status, [name, count]...)
--
-- Note how far a spider has come in a site's list. '' stands for what is not given. What is not beyond what is known
-- changes nothing, its counts included: a page that is fetched again leaves what it left the first time. By the page, or
-- by the timestamp where no page is given. O(counts + sites whose time is over). Returns whether it was noted.
--   state: hash        page, timestamp, status, saved_ms, total:<name>
--   sites: sorted set  each site, scored by saved_ms
local state, sites = KEYS[1], KEYS[2]
local lifetime_ms, site, page, timestamp, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local function goes_on(field, value)
  local known = redis.call('HGET', state, field)
  return not known or tonumber(value) > tonumber(known)
end

if page ~= '' and not goes_on('page', page) then return 0 end
local is_later = timestamp ~= '' and goes_on('timestamp', timestamp)
if page == '' and timestamp ~= '' and not is_later then return 0 end

for i = 6, #ARGV, 2 do
  if not string.find(ARGV[i + 1], '^%-?%d+$') then
    return redis.error_reply('NOCOUNT total:' .. ARGV[i] .. ' can not grow by ' .. ARGV[i + 1] .. ': a whole number is wanted')
  end
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', state, 'saved_ms', now_ms)
if page ~= '' then redis.call('HSET', state, 'page', page) end
if is_later then redis.call('HSET', state, 'timestamp', timestamp) end
if status ~= '' then redis.call('HSET', state, 'status', status) end
for i = 6, #ARGV, 2 do redis.call('HINCRBY', state, 'total:' .. ARGV[i], ARGV[i + 1]) end
redis.call('ZREMRANGEBYSCORE', sites, '-inf', now_ms - lifetime_ms)
redis.call('ZADD', sites, now_ms, site)
redis.call('PEXPIRE', state, lifetime_ms)
redis.call('PEXPIRE', sites, lifetime_ms)
return 1
