-- unsee(meta, starts, seen; fingerprints…) -> how many had been seen
--
-- Forget single fingerprints, where each is kept by itself: an exact filter. Bloom filters can't. O(fingerprints).
--
-- | key    | type | meaning                                     |
-- | meta   | hash | dedup, seen, slices, generation             |
-- | starts | set  | fingerprints of the start requests admitted |
-- | seen   |      | the dedup's own                             |
local meta, starts, seen = unpack(KEYS)

local refused, forgotten = remove_seen({key = seen, meta = meta}, ARGV)
if refused then return redis.error_reply(refused) end
for _, fingerprint in ipairs(ARGV) do redis.call('SREM', starts, fingerprint) end
if forgotten > 0 then redis.call('HINCRBY', meta, 'generation', 1) end
return forgotten
