-- find(key; lock, lock_ms)
--
-- Return what a shared value's key holds and how long it will, ms. Where there is nothing, put `lock` there for so long,
-- and return that; not where `lock` is ''. What is no string is removed: nobody here wrote it. O(1).
local key, lock, lock_ms = KEYS[1], ARGV[1], ARGV[2]
if redis.call('TYPE', key).ok ~= 'string' then redis.call('DEL', key) end
local found = redis.call('GET', key)
if found then return {found, redis.call('PTTL', key)} end
if lock == '' then return {'', 0} end
redis.call('SET', key, lock, 'PX', lock_ms)
return {lock, lock_ms}
