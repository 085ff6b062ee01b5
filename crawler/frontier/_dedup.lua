-- dedup_of(key, meta, mode, capacity, error_rate, ttl_ms) -> dedup; the last four as a caller's arguments
-- admit(dedup, fingerprints) -> {1 or 0 for each: new or seen}, or nil and why not
-- forget(dedup)                needs key and meta alone, and undoes whatever settings the filter was made with
-- remove_seen(dedup, fingerprints) -> why not, or nil and how many were there; needs key and meta alone
--
-- Stands in front of a script, so that a link is noted as seen in the same atomic step that queues it.
--
-- | field of dedup | meaning                                                                      |
-- | mode           | 'bloom' (BF.* where the server has it, else bitmaps), 'bitmap', 'exact', 'off' |
-- | capacity       | fingerprints planned for; past them the filter grows                         |
-- | error_rate     | share of new links that may be taken for seen, over all layers               |
-- | ttl_ms         | what was seen is forgotten after this time, and a quarter of it at most (0: never) |
-- | now_ms         | server time                                                                  |
-- | key            | Bloom filter or set; bitmaps are key:<layer>:<block>                         |
-- | meta           | hash: dedup = what the filter was made for, seen = fingerprints in it,       |
-- |                | slices = slice=fingerprints of each                                          |
--
-- With a ttl_ms each slice of it (_slices.lua) has a filter of its own, key:<slice>, bitmaps key:<slice>:<layer>:<block>,
-- for its share of the capacity. A link is looked for in the present slice and the four before it, which share the
-- error rate, and noted in the present one. Older ones are dropped whole.
--
-- All reads come before the first write. Redis refuses a script's first write or none (out of memory, wrong type), so
-- a script that calls admit before it writes anything else does all of its work or nothing.
local function dedup_of(key, meta, mode, capacity, error_rate, ttl_ms)
  local time = redis.call('TIME')
  return {
    key = key,
    meta = meta,
    mode = mode,
    capacity = tonumber(capacity),
    error_rate = tonumber(error_rate),
    ttl_ms = tonumber(ttl_ms),
    now_ms = time[1] * 1000 + math.floor(time[2] / 1000),
  }
end

local admit, forget, remove_seen
do
  -- A bitmap's string, with its header, just fills one of the allocator's size classes (20 KiB): so small that the last
  -- one wastes little even in a filter for a million, so large that their keys cost nothing.
  local BLOCK_BITS = 8 * (20 * 1024 - 16)
  -- Lua passes at most about 8,000 arguments to a call.
  local CHUNK = 4000

  local function each_chunk(list, call)
    for first = 1, #list, CHUNK do call(first, math.min(first + CHUNK - 1, #list)) end
  end

  -- Layer i holds capacity * 2^i at error_rate / 2^(i+1): however many there are, their errors add up to error_rate.
  local function layer(dedup, i)
    local hashes = i + 1 - math.log(dedup.error_rate) / math.log(2)
    local bits = math.ceil(dedup.capacity * 2 ^ i * hashes / math.log(2))
    local blocks = math.ceil(bits / BLOCK_BITS)
    return {
      prefix = dedup.key .. ':' .. i .. ':',
      blocks = blocks,
      bits = blocks == 1 and bits or BLOCK_BITS,
      hashes = math.ceil(hashes),
      full = dedup.capacity * (2 ^ (i + 1) - 1),
    }
  end

  -- The layers in use when `count` fingerprints are stored; the last has room for the next.
  local function layers(dedup, count)
    local all = {}
    repeat all[#all + 1] = layer(dedup, #all) until all[#all].full > count
    return all
  end

  -- One block and, by enhanced double hashing, `hashes` bits of it. Hashed anew, as a fingerprint may be anything.
  local function bits_of(layer, fingerprint)
    local hex = redis.sha1hex(fingerprint)
    local block = tonumber(hex:sub(1, 8), 16) % layer.blocks
    local bit = tonumber(hex:sub(9, 20), 16) % layer.bits
    local step = tonumber(hex:sub(21, 32), 16) % layer.bits
    local bits = {}
    for i = 1, layer.hashes do
      bits[i] = bit
      bit = (bit + step) % layer.bits
      step = (step + i) % layer.bits
    end
    return layer.prefix .. block, bits
  end

  local function has(layer, fingerprint)
    local key, bits = bits_of(layer, fingerprint)
    for _, bit in ipairs(bits) do
      if redis.call('GETBIT', key, bit) == 0 then return false end
    end
    return true
  end

  local function put(layer, fingerprint)
    local key, bits = bits_of(layer, fingerprint)
    -- Naming the block's end gives the string its whole size at once; each growth would leave half of it spare.
    local command = {'BITFIELD', key, 'SET', 'u1', layer.bits, '0'}
    for _, bit in ipairs(bits) do
      command[#command + 1] = 'SET'
      command[#command + 1] = 'u1'
      command[#command + 1] = bit
      command[#command + 1] = '1'
    end
    redis.call(unpack(command))
  end

  local seen_in = {}

  function seen_in.bitmap(dedup, fingerprints, found)
    for _, layer in ipairs(layers(dedup, dedup.count)) do
      for i, fingerprint in ipairs(fingerprints) do found[i] = found[i] or has(layer, fingerprint) end
    end
  end

  local function mark(found, first, answers)
    for i, answer in ipairs(answers) do found[first + i - 1] = found[first + i - 1] or answer == 1 end
  end

  function seen_in.exact(dedup, fingerprints, found)
    each_chunk(fingerprints, function(first, last)
      mark(found, first, redis.call('SMISMEMBER', dedup.key, unpack(fingerprints, first, last)))
    end)
  end

  function seen_in.bloom(dedup, fingerprints, found)
    each_chunk(fingerprints, function(first, last)
      mark(found, first, redis.call('BF.MEXISTS', dedup.key, unpack(fingerprints, first, last)))
    end)
  end

  local admit_to = {}

  function admit_to.bitmap(dedup, fingerprints)
    local count = dedup.count
    local filled, new, unseen = layers(dedup, count), {}, {}
    for i, fingerprint in ipairs(fingerprints) do
      local seen = unseen[fingerprint]
      for l = #filled, 1, -1 do seen = seen or has(filled[l], fingerprint) end
      unseen[fingerprint] = true
      new[i] = seen and 0 or 1
    end
    for i, fingerprint in ipairs(fingerprints) do
      if new[i] == 1 then
        if count >= filled[#filled].full then filled = layers(dedup, count) end
        put(filled[#filled], fingerprint)
        count = count + 1
      end
    end
    return new
  end

  function admit_to.exact(dedup, fingerprints)
    local new, unseen, added = {}, {}, {}
    each_chunk(fingerprints, function(first, last)
      local seen = redis.call('SMISMEMBER', dedup.key, unpack(fingerprints, first, last))
      for i = first, last do
        local fingerprint = fingerprints[i]
        new[i] = (unseen[fingerprint] or seen[i - first + 1] == 1) and 0 or 1
        if new[i] == 1 then added[#added + 1] = fingerprint end
        unseen[fingerprint] = true
      end
    end)
    each_chunk(added, function(first, last) redis.call('SADD', dedup.key, unpack(added, first, last)) end)
    return new
  end

  function admit_to.bloom(dedup, fingerprints)
    local new = {}
    each_chunk(fingerprints, function(first, last)
      local added = redis.call('BF.INSERT', dedup.key, 'CAPACITY', dedup.capacity, 'ERROR', dedup.error_rate,
        'EXPANSION', 2, 'ITEMS', unpack(fingerprints, first, last))
      -- An answer that is an error (the filter could not grow) counts as new: a page twice is better than never.
      for i = first, last do new[i] = added[i - first + 1] == 0 and 0 or 1 end
    end)
    return new
  end

  local function limits(dedup)
    local ttl = dedup.ttl_ms > 0 and ' ttl_ms=' .. string.format('%.0f', dedup.ttl_ms) or ''
    if dedup.mode == 'exact' then return ttl end
    return ' capacity=' .. dedup.capacity .. ' error_rate=' .. dedup.error_rate .. ttl
  end

  local function slice_of(dedup, number, count)
    return {
      key = dedup.key .. ':' .. string.format('%.0f', number),
      number = number,
      count = count,
      capacity = math.ceil(dedup.capacity / SLICES),
      error_rate = dedup.error_rate / (SLICES + 1),
    }
  end

  -- The slices that were noted, oldest first.
  local function slices_of(dedup, noted)
    local all = {}
    for number, count in string.gmatch(noted, '(%d+)=(%d+)') do
      all[#all + 1] = slice_of(dedup, tonumber(number), tonumber(count))
    end
    return all
  end

  local function drop(layout, filter)
    redis.call('UNLINK', filter.key)
    if layout == 'bitmap' then
      for _, layer in ipairs(layers(filter, filter.count)) do
        for block = 0, layer.blocks - 1 do redis.call('UNLINK', layer.prefix .. block) end
      end
    end
  end

  local function sum(new)
    local added = 0
    for i = 1, #new do added = added + new[i] end
    return added
  end

  local function admit_to_slices(dedup, layout, fingerprints, noted)
    local live, expired, present = {}, {}, slice_at(dedup.ttl_ms, dedup.now_ms)
    local all = slices_of(dedup, noted)
    for _, slice in ipairs(all) do
      local list = slice.number >= present - SLICES and live or expired
      list[#list + 1] = slice
    end
    -- Where the clock was set back, the youngest slice goes on.
    if #live == 0 or live[#live].number < present then live[#live + 1] = slice_of(dedup, present, 0) end

    local found = {}
    for i = 1, #live - 1 do seen_in[layout](live[i], fingerprints, found) end
    local asked, new = {}, {}
    for i, fingerprint in ipairs(fingerprints) do
      new[i] = 0
      if not found[i] then asked[#asked + 1] = fingerprint end
    end
    local answers, nth = admit_to[layout](live[#live], asked), 0
    for i = 1, #fingerprints do
      if not found[i] then
        nth = nth + 1
        new[i] = answers[nth]
      end
    end

    if sum(answers) == 0 then return new end
    live[#live].count = live[#live].count + sum(answers)
    for _, slice in ipairs(expired) do drop(layout, slice) end
    local left, seen = {}, 0
    for i, slice in ipairs(live) do
      left[i] = string.format('%.0f=%d', slice.number, slice.count)
      seen = seen + slice.count
    end
    redis.call('HSET', dedup.meta, 'seen', seen, 'slices', table.concat(left, ' '))
    return new
  end

  local function layout_for(dedup)
    if dedup.mode ~= 'bloom' then return dedup.mode end
    local answer = redis.pcall('BF.EXISTS', dedup.key, '')
    local unknown = type(answer) == 'table' and answer.err and answer.err:find('[Uu]nknown .*command')
    return unknown and 'bitmap' or 'bloom'
  end

  function admit(dedup, fingerprints)
    local new = {}
    if dedup.mode == 'off' then
      for i = 1, #fingerprints do new[i] = 1 end
      return new
    end
    local noted = redis.call('HMGET', dedup.meta, 'dedup', 'seen', 'slices')
    local made, count = noted[1], tonumber(noted[2] or 0)
    local layout = made and made:match('^%a+')
    if not made then
      local found = redis.call('TYPE', dedup.key).ok
      if found ~= 'none' then
        return nil, 'DEDUP ' .. dedup.key .. ' holds a ' .. found .. ' of which ' .. dedup.meta ..
          ' says nothing: something else wrote it; delete or rename it, or use another key'
      end
      layout = layout_for(dedup)
    elseif made ~= layout .. limits(dedup) or not (layout == dedup.mode or layout .. dedup.mode == 'bitmapbloom') then
      return nil, 'DEDUP ' .. dedup.key .. ' was made for "' .. made .. '" and can\'t serve "' .. dedup.mode ..
        limits(dedup) .. '": set that back, or clear what was seen'
    end

    if dedup.ttl_ms > 0 then
      new = admit_to_slices(dedup, layout, fingerprints, noted[3] or '')
    else
      dedup.count = count
      new = admit_to[layout](dedup, fingerprints)
      if sum(new) > 0 then redis.call('HINCRBY', dedup.meta, 'seen', sum(new)) end
    end
    if not made and sum(new) > 0 then redis.call('HSET', dedup.meta, 'dedup', layout .. limits(dedup)) end
    return new
  end

  -- What a filter was made for says where all of it is.
  local function filters_of(dedup)
    local made, seen, slices = unpack(redis.call('HMGET', dedup.meta, 'dedup', 'seen', 'slices'))
    made = made or ''
    local was = {
      key = dedup.key,
      count = tonumber(seen or 0),
      capacity = tonumber(made:match('capacity=(%S+)') or 0),
      error_rate = tonumber(made:match('error_rate=(%S+)') or 0),
    }
    return made:match('^%a+'), slices and slices_of(was, slices) or {was}
  end

  function forget(dedup)
    local layout, filters = filters_of(dedup)
    for _, filter in ipairs(filters) do drop(layout, filter) end
    redis.call('HDEL', dedup.meta, 'dedup', 'seen', 'slices')
  end

  function remove_seen(dedup, fingerprints)
    local layout, filters = filters_of(dedup)
    if not layout then return nil, 0 end
    if layout ~= 'exact' then
      return 'DEDUP ' .. dedup.key .. ' is a Bloom filter, which can\'t forget one URL of many: `scrapy seed --dont-filter` ' ..
        'has it fetched all the same, `scrapy frontier clear --forget` forgets all'
    end
    local removed, in_slices = 0, {}
    for i, filter in ipairs(filters) do
      local before = removed
      for _, fingerprint in ipairs(fingerprints) do removed = removed + redis.call('SREM', filter.key, fingerprint) end
      if filter.number then in_slices[i] = string.format('%.0f=%d', filter.number, filter.count - removed + before) end
    end
    if removed > 0 then redis.call('HINCRBY', dedup.meta, 'seen', -removed) end
    if #in_slices > 0 then redis.call('HSET', dedup.meta, 'slices', table.concat(in_slices, ' ')) end
    return nil, removed
  end
end
