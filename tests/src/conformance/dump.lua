-- The whole keyspace as one canonical text, or, unless ARGV[1] is "full", its digest: of each key
-- the type, the expiry and the content, whatever order the server keeps them in.

-- The servers compare strings as their locale does, so bytes are compared by hand.
local function less(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local lines = {}
local function say(text)
  lines[#lines + 1] = #text .. ":" .. text
end

-- For a digest it is enough to add up what each item hashes to: no order, no sorting. Sums of so
-- many bits are exact for two million items.
local full = ARGV[1] == "full"
local function say_in_any_order(items)
  if full then
    table.sort(items, less)
    for _, item in ipairs(items) do say(item) end
    return
  end
  local low, middle, high = 0, 0, 0
  for _, item in ipairs(items) do
    local hash = redis.sha1hex(item)
    low = low + tonumber(hash:sub(1, 8), 16)
    middle = middle + tonumber(hash:sub(9, 16), 16)
    high = high + tonumber(hash:sub(17, 24), 16)
  end
  say(string.format("%d items, %.0f %.0f %.0f", #items, low, middle, high))
end

local say_content = {
  string = function(key) say(redis.call("GET", key)) end,
  hash = function(key)
    local flat, fields = redis.call("HGETALL", key), {}
    for i = 1, #flat, 2 do
      fields[#fields + 1] = #flat[i] .. ":" .. flat[i] .. "=" .. flat[i + 1]
    end
    say_in_any_order(fields)
  end,
  set = function(key) say_in_any_order(redis.call("SMEMBERS", key)) end,
  -- Scores are spelled differently; the numbers count.
  zset = function(key)
    local flat = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
    for i = 1, #flat, 2 do
      say(flat[i])
      say(string.format("%.17g", tonumber(flat[i + 1])))
    end
  end,
  stream = function(key)
    for _, entry in ipairs(redis.call("XRANGE", key, "-", "+")) do
      say(entry[1])
      for _, part in ipairs(entry[2]) do say(part) end
    end
  end,
}

-- Expiries far away are set as they are and must be equal. Nearer ones count from the moment at
-- which each store got the command, and are told in thousands of seconds to come.
local FAR_MS = 4e12
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function say_expiry(key)
  local at_ms = redis.call("PEXPIRETIME", key)
  if at_ms >= FAR_MS then
    say("at " .. string.format("%.0f", at_ms))
  elseif at_ms >= 0 then
    say("in " .. math.floor((at_ms - now_ms) / 1e6 + 0.5))
  end
end

local keys = redis.call("KEYS", "*")
table.sort(keys, less)
for _, key in ipairs(keys) do
  local kind = redis.call("TYPE", key).ok
  say(key)
  say(kind)
  say_expiry(key)
  say_content[kind](key)
end

local text = table.concat(lines, "\n")
return full and text or redis.sha1hex(text)
