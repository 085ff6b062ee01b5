-- bury(meta, dead; reason, entry, …) -> how many
--
-- Set entries aside that never were seeds, so that they are counted, can be listed, and can be tried again. O(entries).
--
-- | key  | type | meaning                      |
-- | meta | hash | accepted, dead_numbers       |
-- | dead | hash | number -> reason and seed    |
local meta, dead = unpack(KEYS)
for i = 1, #ARGV, 2 do
  redis.call('HINCRBY', meta, 'accepted', 1)
  bury(meta, dead, {priority = '0', deaths = 0, seed = ARGV[i + 1]}, ARGV[i])
end
return #ARGV / 2
