-- revive(dead, meta, priorities; base, retry, numbers…) -> how many
--
-- Take seeds from the dead: put them back into the queue (retry '1'), or drop them for good. O(numbers).
--
-- | key            | type | meaning                              |
-- | dead           | hash | number -> reason and seed            |
-- | meta           | hash | removed, state, epoch, began_ms      |
-- | priorities     | zset | the priorities that have an inbox    |
-- | base inbox:<p> | list | seeds of priority p                  |
local dead, meta, priorities = unpack(KEYS)
local base, retry = ARGV[1], ARGV[2] == '1'

local taken = 0
for i = 3, #ARGV do
  local entry = redis.call('HGET', dead, ARGV[i])
  if entry then
    redis.call('HDEL', dead, ARGV[i])
    if retry then
      local priority, length, rest = string.match(entry, '^%d+ (%-?%d+) %d+ (%d+) (.*)$')
      put_behind(base, priorities, priority, {string.sub(rest, length + 2)})
    else
      redis.call('HINCRBY', meta, 'removed', 1)
    end
    taken = taken + 1
  end
end
if retry and taken > 0 then wake(base, meta) end
return taken
