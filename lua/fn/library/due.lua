-- What is due on a partition: for each index given, the members whose score is not after the
-- server's clock, lowest first, and the first score after it, so that a caller knows how long it
-- may sleep. An offset lets a caller look past members that it cannot serve. An added function.
-- Keys: any number of zsets with times as scores
-- Arguments: limit (members per index, 50 unless given, 1000 at most), then per key an offset
-- Replies: OK
-- Errors: invalid_input
-- Bound: 1 + 2 * n
-- Keeps: BoundedWork, WindowMoves
local LIMIT_MAX = 1000

-- A score as whole milliseconds.
local function whole(score)
  return number.digits(math.ceil(tonumber(score)))
end

-- { next score or "", member, score, member, score, … }
local function due_of(key, now, offset, limit)
  local found = call("ZRANGEBYSCORE", key, "-inf", now, "WITHSCORES", "LIMIT", offset, limit)
  local later = call("ZRANGEBYSCORE", key, "(" .. now, "+inf", "WITHSCORES", "LIMIT", 0, 1)
  for i = 2, #found, 2 do
    found[i] = whole(found[i])
  end
  return text.append({ later[2] and whole(later[2]) or "" }, found)
end

define("ff_due",
  {},
  { "limit" },
  function(_, a, keys, args)
    local limit, refused = number.require_span(text.either(a.limit, 50), "limit", 1)
    if not limit then return refused end
    limit = number.digits(math.min(limit, LIMIT_MAX))
    local offsets = {}
    for i = 1, #keys do
      local offset
      offset, refused = number.require_span(text.either(args[i + 1], 0), "offset", 0)
      if not offset then return refused end
      offsets[i] = number.digits(offset)
    end
    local now = number.digits(number.now())
    local reply = ok(now)
    for i, key in ipairs(keys) do
      reply[#reply + 1] = due_of(key, now, offsets[i], limit)
    end
    return reply
  end, { reads_only = true })
