-- Reads a page of an attempt's frames, oldest first. With `exclude_best_effort` the page is filled
-- up from behind the frames that are left out, so that a short page always means the end.
-- Keys: stream (stream), stream_meta (hash)
-- Arguments: from_id, to_id, count_limit, visibility
-- Replies: OK
-- Errors: invalid_input
-- Bound: 3 + 1 * n
-- Keeps: BoundedWork
local COUNT_MAX = 10000
local PAGE = 1000

-- A range of the stream, or nil and the refusal of an id that is none.
local function range(key, from, to, count)
  local page = try("XRANGE", key, from, to, "COUNT", number.digits(count))
  if not page.err then
    return page
  end
  if page.err:find("WRONGTYPE", 1, true) then
    return nil, redis.error_reply(page.err)
  end
  return nil, err("invalid_input", "from_id and to_id must be stream ids")
end

local function is_best_effort(fields)
  for i = 1, #fields, 2 do
    if fields[i] == "mode" then
      return fields[i + 1] == "best_effort"
    end
  end
  return false
end

-- The first `count` frames that are not best effort, or nil and a refusal.
local function durable_range(key, from, to, count)
  local frames = {}
  local page, refused = range(key, from, to, PAGE)
  if not page then
    return nil, refused
  end
  while page do
    for _, entry in ipairs(page) do
      if not is_best_effort(entry[2]) then
        frames[#frames + 1] = entry
        if #frames == count then
          return frames
        end
      end
    end
    page = #page == PAGE and range(key, "(" .. page[PAGE][1], to, PAGE)
  end
  return frames
end

define("ff_read_attempt_stream",
  { "stream!=stream", "stream_meta!=hash" },
  { "from_id", "to_id", "count_limit", "visibility" },
  function(k, a)
    local count = tonumber(a.count_limit) or 0
    if not (count >= 1) then return err("invalid_input", "count_limit must be >= 1") end
    if count > COUNT_MAX then return err("invalid_input", "count_limit_exceeds_hard_cap") end
    count = math.floor(count)
    local read = a.visibility == "exclude_best_effort" and durable_range or range
    local frames, refused =
      read(k.stream, text.present(a.from_id, "-"), text.present(a.to_id, "+"), count)
    if not frames then return refused end
    local meta = record.fields(k.stream_meta, "closed_at", "closed_reason")
    return { 1, "OK", frames, text.present(meta.closed_at, ""),
      text.present(meta.closed_reason, "") }
  end, { reads_only = true })
