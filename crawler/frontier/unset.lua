-- unset(key; value)
--
-- Remove a key that still holds `value`: a lock that is still one's own, a value that proved bad. O(1).
local key, value = KEYS[1], ARGV[1]
if redis.call('GET', key) ~= value then return 0 end
return redis.call('DEL', key)
