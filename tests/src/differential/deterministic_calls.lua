-- Replaces what may differ between servers with deterministic versions, on every store alike, while
-- the library is compared across stores: the order of table names and set members (sorted), random
-- members (the smallest), the process id and, if a key for it exists, the time.

-- JSON with sorted names, as far as there are any; the rest is for the server's own codec.
local function steady_json(value)
  if type(value) ~= "table" or next(value) == nil then return cjson.encode(value) end
  local parts = {}
  if value[1] ~= nil then
    for i, item in ipairs(value) do parts[i] = steady_json(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  local names = {}
  for name in pairs(value) do
    if type(name) ~= "string" then return cjson.encode(value) end
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do
    parts[i] = cjson.encode(name) .. ":" .. steady_json(value[name])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- What a set or a hash holds, in order; a cursor is a place in that order. Whatever cannot be done
-- so is for the server, and so are its errors.
local function in_order(run, name, key, cursor, word, count)
  if name ~= "SSCAN" then
    local found = run(name, key)
    if not found.err then table.sort(found) end
    return found
  end
  local from, most = tonumber(cursor), tonumber(count)
  if word ~= "COUNT" or not from or not most or from < 0 or most < 1 then
    return run(name, key, cursor, word, count)
  end
  local found = in_order(run, "SMEMBERS", key)
  if found.err then return found end
  local page = {}
  for i = from + 1, math.min(#found, from + most) do page[#page + 1] = found[i] end
  return { from + most < #found and string.format("%.0f", from + most) or "0", page }
end

-- With a clock of its own a store never sees an expiry come: whoever moves the clock removes what
-- is over.
local function call(...)
  local name, argv = (...), { ... }
  if name == "SRANDMEMBER" or name == "SPOP" then
    local members = redis.call("SMEMBERS", argv[2])
    table.sort(members)
    if not argv[3] then return members[1] or false end
    local taken = {}
    for i = 1, math.min(#members, tonumber(argv[3])) do taken[i] = members[i] end
    if name == "SPOP" and #taken > 0 then redis.call("SREM", argv[2], unpack(taken)) end
    return taken
  end
  if name == "SSCAN" or name == "SMEMBERS" or name == "HKEYS" then
    return in_order(redis.call, ...)
  end
  -- Nobody else is asked for the time: every command more counts against a function's bound.
  local timely = name == "TIME" or name == "PEXPIRE" or name == "XADD"
    or (name == "SET" and argv[4] == "PX")
  local now_us = timely and redis.call("GET", "selvedge:clock")
  if not now_us then return redis.call(...) end
  local now_ms = tonumber(now_us:sub(1, -4))
  local function in_ms(ttl) return string.format("%.0f", now_ms + tonumber(ttl)) end
  if name == "TIME" then
    return { now_us:sub(1, -7), tostring(tonumber(now_us:sub(-6))) }
  elseif name == "PEXPIRE" then
    return redis.call("PEXPIREAT", argv[2], in_ms(argv[3]))
  elseif name == "SET" then
    argv[4], argv[5] = "PXAT", in_ms(argv[5])
    return redis.call(unpack(argv))
  elseif name == "XADD" then
    local place = argv[3] == "MAXLEN" and 6 or 3
    if argv[place] == "*" then
      argv[place] = in_ms(0) .. "-*"
      local id = redis.pcall(unpack(argv))
      if type(id) ~= "table" then return id end
      -- The newest entry is from a later time: the next one follows it.
      local newest = redis.call("XREVRANGE", argv[2], "+", "-", "COUNT", "1")[1][1]
      local ms, count = newest:match("^(%d+)-(%d+)$")
      argv[place] = ms .. "-" .. string.format("%.0f", tonumber(count) + 1)
    end
    return redis.call(unpack(argv))
  end
  return redis.call(...)
end

local function try(name, ...)
  if name == "INFO" then return "run_id:0" end
  if name == "SSCAN" or name == "SMEMBERS" then
    return in_order(redis.pcall, name, ...)
  end
  return redis.pcall(name, ...)
end
