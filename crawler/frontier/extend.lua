-- extend(workers; worker, lease_ms) -> 1, or 0 when the worker's session is gone
--
-- Keep all leases of a worker for another lease_ms. O(log workers).
local workers = KEYS[1]
local worker, lease_ms = ARGV[1], tonumber(ARGV[2])

-- Removed first: a script that begins by freeing is let through by a full server.
if redis.call('ZREM', workers, worker) == 0 then return 0 end
redis.call('ZADD', workers, now_ms() + lease_ms, worker)
return 1
