-- drop(taken; batch)
--
-- Say that the frontier has all entries of a batch. O(its entries). The keys are those of `take`.
local taken, batch = KEYS[1], ARGV[1]
redis.call('UNLINK', taken .. ':' .. batch)
redis.call('ZREM', taken, batch)
return 1
