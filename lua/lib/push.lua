-- Our own messages, beside the contract's channel: hints that save polling. Nothing depends on
-- them: a scan finds the same later, so a lost message only costs time.
--
--   ff:ready:<lane>               <partition tag>   something of this lane became eligible there
--   ff:ended:<partition tag>      <execution id>    the execution became terminal
--   ff:lost:<worker instance id>  <execution id>    the instance has lost its lease
--   ff:frames:<execution id>      <attempt index>   the attempt's output grew, or was closed
--   ff:held                       <partition tag>   a quota holds something back there
--   ff:freed                      <quota id>        a slot of the quota is free again
--   ff:lanes                      <lane>            an operator has set the state of the lane
--   ff:due                        <partition tag> <ms>   something is due there after that time
--
-- A payload only says where to look: outcome, result and fence are read from the record. The server
-- sends messages at the end of the call, so one `ready` per lane and call is enough for all
-- executions that the call made eligible.

-- The indexes that the call with the number `published_by` has published a message about: the first
-- one, and the others as a set.
local published_by, first, others
local NONE = {}

-- Whether the running call has not yet published a message about the index. It does so now.
local function is_first_message(index)
  if published_by ~= running then
    published_by, first, others = running, index, NONE
    return true
  elseif first == index or others[index] then
    return false
  end
  others = others == NONE and {} or others
  others[index] = true
  return true
end

-- An engine looks at an idle partition at least this often: what is due later needs no message.
push.SLEEP_MS = 30000

-- How soon an engine looks at what a budget or a route holds back.
local HELD_MS = 5000

-- Publishes that something is due in the partition of an index after `wait` milliseconds.
function push.due_in(index, wait)
  call("PUBLISH", "ff:due", text.tag(index) .. " " .. number.digits(wait > 0 and wait or 0))
end

-- The same for an entry that was added to a sorted set of due times, if an engine may sleep until
-- after that: it is due soon, and nothing else in the index before it.
function push.due(index, at)
  local wait = at - number.now()
  if wait < push.SLEEP_MS and is_first_message(index)
    and tonumber(call("ZRANGE", index, "0", "0", "WITHSCORES")[2]) >= at then
    push.due_in(index, wait)
  end
end

-- Publishes what follows from an entry in a lane index about which workers learn nothing.
local function tell_engines(index, ending, scores)
  if ending == "ed:budget" or ending == "ked:route" then
    if is_first_message(index) then push.due_in(index, HELD_MS) end
  elseif ending:sub(2) == ":delayed" then
    local at = tonumber(type(scores) == "table" and scores[1] or scores)
    for i = 3, type(scores) == "table" and #scores or 0, 2 do
      at = math.min(at, tonumber(scores[i]))
    end
    push.due(index, at)
  end
end

-- The last but one byte of `:active`, which no other name of a lane index has there.
local CLAIMED = ("v"):byte()

-- Publishes that an execution was added to a lane index with a score, or several with the scores
-- in a list { score, id, score, id, … }.
function push.entered(index, id, scores)
  local ending = index:sub(-9)
  if ending ~= ":terminal" and ending ~= ":eligible" and ending ~= "ked:quota" then
    -- Every claim comes here, and has nothing to tell.
    if ending:byte(-2) ~= CLAIMED then tell_engines(index, ending, scores) end
    return
  end
  local tag = text.tag(index)
  local front = "ff:idx:" .. tag .. ":lane:"
  if index:sub(1, #front) ~= front or #index < #front + 9 then
    return
  elseif ending == ":terminal" then
    call("PUBLISH", "ff:ended:" .. tag, id)
  elseif not is_first_message(index) then
    return
  elseif ending == ":eligible" then
    call("PUBLISH", "ff:ready:" .. index:sub(#front + 1, -10), tag)
  else
    call("PUBLISH", "ff:held", tag)
  end
end

-- Publishes that a quota has a free slot; the key of its holders names the quota.
function push.freed(admitted_set_key)
  local id = admitted_set_key:match("^ff:quota:%b{}:(.*):admitted_set$")
  if id then
    call("PUBLISH", "ff:freed", id)
  end
end

-- Publishes that the holder that the record names has lost a running execution.
function push.lost(core, id)
  if core.lifecycle_phase == "active" and text.set(core.current_worker_instance_id) then
    call("PUBLISH", "ff:lost:" .. core.current_worker_instance_id, id)
  end
end

-- Publishes that the output of an attempt has changed; its meta key names the attempt.
function push.frames(meta_key)
  local id, index = meta_key:match("^ff:stream:%b{}:(.*):(%d+):meta$")
  if id then
    call("PUBLISH", "ff:frames:" .. id, index)
  end
end
