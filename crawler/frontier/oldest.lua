-- oldest(list; seeds, size) -> when the first seed of the list came that says so, ms since 1970; or nil
--
-- Looks at `seeds` from the head on, and stops after about `size` bytes. Reads only, O(size): the seeds stay here, however
-- large they are.
local list, most, left = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

-- A node of a list, as redis.conf has it, is unpacked whole for whatever is read of it: so much is read at a time.
local NODE = 16384

local looked, read, count = 0, 0, 1
while count > 0 do
  local seeds = redis.call('LRANGE', list, looked, looked + count - 1)
  for _, seed in ipairs(seeds) do
    local _, came_ms = unstamped(seed)
    if came_ms then return came_ms end
    read = read + #seed
  end
  looked = looked + #seeds
  if #seeds < count or read >= left then return false end
  -- The next seeds are taken to be as long as these.
  count = math.min(math.ceil(math.min(NODE, left - read) * looked / read), most - looked)
end
return false
