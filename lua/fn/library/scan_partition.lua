-- Reads one page of each of several indexes of a partition at one instant: the entries that are
-- due, or all entries. An added function: an engine visits a partition with a single call and
-- learns when to come back.
--
-- A request is a mode, a start, a limit (at most 1000) and a lag. Mode `due`: members whose score
-- is at most now - lag_ms, from that offset; `all`: members in order of score, from that offset;
-- `members`: members of a set, from that cursor; `size`: none of a set. The reply is now, then per
-- key an array, empty for an empty index: size, next, member, score, member, score, …; next is the
-- lowest score that is not yet due, or the next cursor; the score is empty for a set. For a key of
-- another type the array holds one error text; the other keys are answered as usual.
-- Keys: any number of indexes (sorted sets or sets)
-- Arguments: four per key: mode, from, limit, lag_ms
-- Replies: OK
-- Errors: invalid_input
-- Bound: 1 + 4 * n
local LIMIT_MAX = 1000
-- Keys are looked at one by one where at least one of so many exists.
local HALVED = 3

-- Most indexes of most partitions are empty: they share one answer.
local IDLE = {}

-- A reader answers a page of a non-empty index and the next cursor or score.
local READERS = {
  due = function(key, from, limit, cutoff)
    local page = call("ZRANGEBYSCORE", key, "-inf", number.digits(cutoff), "WITHSCORES",
      "LIMIT", number.digits(from), number.digits(limit))
    local after = call("ZRANGEBYSCORE", key, "(" .. number.digits(cutoff), "+inf", "WITHSCORES",
      "LIMIT", "0", "1")
    return page, after[2] or ""
  end,
  all = function(key, from, limit)
    return call("ZRANGE", key, number.digits(from), number.digits(from + limit - 1), "WITHSCORES"),
      ""
  end,
  members = function(key, from, limit)
    local scanned = call("SSCAN", key, from, "COUNT", number.digits(limit))
    local page = {}
    for _, member in ipairs(scanned[2]) do
      page[#page + 1] = member
      page[#page + 1] = ""
    end
    return page, scanned[1]
  end,
  size = function() return {}, "" end,
}
local SIZE = { due = "ZCARD", all = "ZCARD", members = "SCARD", size = "SCARD" }

-- Where a reader starts: an offset, or a cursor for a set; nil if it is invalid.
local function place(mode, from)
  if mode == "members" then
    return text.is_cursor(from) and from or nil
  end
  local offset = number.whole(from)
  return offset and offset >= 0 and offset or nil
end

-- The page for one request and its key, or nil for an invalid request.
local function read_page(key, missing, mode, from, limit, lag, now)
  local reader = READERS[mode or ""]
  from, limit, lag = place(mode, from), number.whole(limit), number.whole(lag)
  if not reader or not from or not limit or limit < 1 or not lag or lag < 0 then
    return nil
  end
  local size = missing and 0 or try(SIZE[mode], key)
  if size == 0 then
    return IDLE
  elseif type(size) == "table" then
    return { size.err }
  end
  local page, after = reader(key, from, math.min(limit, LIMIT_MAX), now - lag)
  return text.append({ number.digits(size), after }, page)
end

-- Notes which of the keys `first` to `last` do not exist. `count` = how many of them do, if that is
-- known. An idle partition costs one command; where one key of many exists, it is found by halves.
local function find_missing(keys, first, last, count, missing)
  count = count or call("EXISTS", unpack(keys, first, last))
  if count == 0 then
    for i = first, last do
      missing[i] = true
    end
  elseif count * HALVED < last - first + 1 then
    local middle = math.floor((first + last) / 2)
    local left = find_missing(keys, first, middle, nil, missing)
    find_missing(keys, middle + 1, last, count - left, missing)
  end
  return count
end

define("ff_scan_partition", {}, {}, function(_, _, keys, args)
  local now, missing = number.now(), {}
  if #keys > 1 then
    for first = 1, #keys, LIMIT_MAX do
      find_missing(keys, first, math.min(first + LIMIT_MAX - 1, #keys), nil, missing)
    end
  end
  local reply = { 1, "OK", number.digits(now) }
  for i = 1, #keys do
    local at = (i - 1) * 4
    local answer =
      read_page(keys[i], missing[i], args[at + 1], args[at + 2], args[at + 3], args[at + 4], now)
    if not answer then
      return err("invalid_input", "request " .. i .. " must be mode, from, limit, lag_ms")
    end
    reply[i + 3] = answer
  end
  return reply
end, { reads_only = true })
