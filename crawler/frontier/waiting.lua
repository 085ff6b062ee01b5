-- waiting(start, taken) -> 1 when any entry waits there, or was taken and not dropped. O(1). The keys are those of `take`.
return redis.call('EXISTS', KEYS[1]) + redis.call('EXISTS', KEYS[2]) > 0 and 1 or 0
