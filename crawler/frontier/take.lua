-- take(start, taken; batch, want, patience_ms) -> {batch, entry, score, entry, score, …}, or {} when there is none
--
-- Take entries that producers wrote, in a step that is safe to repeat: they stay in a list of their own until `drop`
-- says that the frontier has them. A batch whose worker has not said so for patience_ms is given out again. O(want).
--
-- | key           | type             | meaning                                              |
-- | start         | list, set, zset  | what producers wrote; of a zset the highest score    |
-- | taken         | zset             | batch -> when it was taken, ms                       |
-- | taken:<batch> | list             | its entries and scores                               |
local start, taken = unpack(KEYS)
local batch, want, patience_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = now_ms()
local forgotten = redis.call('ZRANGEBYSCORE', taken, '-inf', now - patience_ms, 'LIMIT', 0, 1)[1]
if forgotten then
  redis.call('ZADD', taken, now, forgotten)
  return {forgotten, unpack(redis.call('LRANGE', taken .. ':' .. forgotten, 0, -1))}
end

local kind, entries = redis.call('TYPE', start).ok, {}
if kind == 'list' then
  for _, entry in ipairs(redis.call('LPOP', start, want) or {}) do
    entries[#entries + 1] = entry
    entries[#entries + 1] = ''
  end
elseif kind == 'set' then
  for _, entry in ipairs(redis.call('SPOP', start, want)) do
    entries[#entries + 1] = entry
    entries[#entries + 1] = ''
  end
elseif kind == 'zset' then
  entries = redis.call('ZPOPMAX', start, want)
elseif kind ~= 'none' then
  return redis.error_reply('STARTKEY ' .. start .. ' holds a ' .. kind .. '; a list, a set or a sorted set is wanted')
end
if #entries == 0 then return {} end

redis.call('RPUSH', taken .. ':' .. batch, unpack(entries))
redis.call('ZADD', taken, now, batch)
return {batch, unpack(entries)}
