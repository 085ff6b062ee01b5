-- What was seen may be forgotten after a time, in slices: each quarter of it has a filter of its own. Here: which slice
-- is the present one, so that all agree, and know when something was forgotten.
local SLICES = 4

local function slice_at(ttl_ms, now_ms)
  return ttl_ms > 0 and math.floor(now_ms * SLICES / ttl_ms) or 0
end
