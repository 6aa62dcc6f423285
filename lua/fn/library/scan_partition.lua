-- One page of each of several indexes of a partition, read at one instant: what is due, or simply
-- what is there. An added function: it lets an engine visit a partition with a single call, and
-- tells it when to come back.
--
-- A request is a mode, where to start, a limit (cut down to 1000) and a lag. Mode `due`: members
-- whose score is at most now - lag_ms, from that offset; `all`: members in order of score, from
-- that offset; `members`: members of a set, from that cursor. It answers now, then per key an array:
-- size, next, member, score, member, score, …; next is the score after the last due one, or the
-- cursor to go on with; score is empty in a set. A key of another type answers with an array of one
-- error text and hides nobody else.
-- Keys: any number of indexes (sorted sets or sets)
-- Arguments: four per key: mode, from, limit, lag_ms
-- Replies: OK
-- Errors: invalid_input
-- Bound: 1 + 3 * n
local LIMIT_MAX = 1000

-- How many members an index has; an idle one has none, and need not be read. Nil and the error
-- for a key of another type.
local function size_of(key, command)
  local size = redis.pcall(command, key)
  if type(size) == "table" then
    return nil, size.err
  end
  return size
end

-- A reader answers a page, what comes next and the size of the index, or nil and an error text.
local READERS = {
  due = function(key, from, limit, cutoff)
    local size, refused = size_of(key, "ZCARD")
    if not size or size == 0 then
      return size and {}, refused or "", size
    end
    local page = call("ZRANGEBYSCORE", key, "-inf", number.digits(cutoff), "WITHSCORES",
      "LIMIT", number.digits(from), number.digits(limit))
    local after = call("ZRANGEBYSCORE", key, "(" .. number.digits(cutoff), "+inf", "WITHSCORES",
      "LIMIT", "0", "1")
    return page, after[2] or "", size
  end,
  all = function(key, from, limit)
    local size, refused = size_of(key, "ZCARD")
    if not size or size == 0 then
      return size and {}, refused or "", size
    end
    return call("ZRANGE", key, number.digits(from), number.digits(from + limit - 1), "WITHSCORES"),
      "", size
  end,
  members = function(key, from, limit)
    local size, refused = size_of(key, "SCARD")
    if not size or size == 0 then
      return size and {}, refused or "0", size
    end
    local scanned = call("SSCAN", key, from, "COUNT", number.digits(limit))
    local page = {}
    for _, member in ipairs(scanned[2]) do
      page[#page + 1] = member
      page[#page + 1] = ""
    end
    return page, scanned[1], size
  end,
}

-- Where a reader is to begin, nil when that cannot be: an offset, or for a set a cursor.
local function place(reader, from)
  if reader == READERS.members then
    return text.is_cursor(from) and from or nil
  end
  local offset = number.whole(from)
  return offset and offset >= 0 and offset or nil
end

define("ff_scan_partition", {}, {}, function(_, _, keys, args)
  local requests = {}
  for i = 1, #keys do
    local at = (i - 1) * 4
    local reader = READERS[args[at + 1] or ""]
    local from = place(reader, args[at + 2])
    local limit, lag = number.whole(args[at + 3]), number.whole(args[at + 4])
    if not reader or not from or not limit or limit < 1 or not lag or lag < 0 then
      return err("invalid_input", "request " .. i .. " must be mode, from, limit, lag_ms")
    end
    requests[i] = { reader = reader, from = from, limit = math.min(limit, LIMIT_MAX), lag = lag }
  end
  local now = number.now()
  local reply = { 1, "OK", number.digits(now) }
  for i, request in ipairs(requests) do
    local page, next_or_error, size =
      request.reader(keys[i], request.from, request.limit, now - request.lag)
    local answer
    if page then
      answer = { number.digits(size), next_or_error }
      for j = 1, #page do
        answer[j + 2] = page[j]
      end
    else
      answer = { next_or_error }
    end
    reply[#reply + 1] = answer
  end
  return reply
end, { reads_only = true })
