-- Our own pushes, beside the contract's channel: hints for those who would have to poll otherwise.
-- Nothing leans on them: a slow look finds the same, so a lost one costs time and nothing else.
--
--   ff:ready:<lane>               <partition tag>   something of this lane became eligible there
--   ff:ended:<partition tag>      <execution id>    the execution became terminal
--   ff:lost:<worker instance id>  <execution id>    somebody else took the instance's lease away
--   ff:frames:<execution id>      <attempt index>   the attempt's output grew, or was closed
--   ff:held                       <partition tag>   a quota holds something back there
--   ff:freed                      <quota id>        a slot of the quota is free again
--
-- Payloads only say where to look: outcome, result and fence are read from the record, which a
-- message can neither outrun nor contradict. The server sends messages when the call is over, so
-- one `ready` per lane and call stands for all that the call made eligible: a thousand children
-- cost one message, and not one each.

-- The indexes whose lanes the running call has announced as ready.
local told = {}

-- Forgets those of the call before.
function push.begin()
  told = {}
end

-- An execution has entered a lane index: tells those who wait for such.
function push.entered(index, id)
  if told[index] then return end
  local tag, lane_id, name = index:match("^ff:idx:({[^}]*}):lane:(.*):(%a+)$")
  if name == "eligible" then
    told[index] = true
    call("PUBLISH", "ff:ready:" .. lane_id, tag)
  elseif name == "quota" then
    told[index] = true
    call("PUBLISH", "ff:held", tag)
  elseif name == "terminal" then
    call("PUBLISH", "ff:ended:" .. tag, id)
  end
end

-- A quota has a slot again; the key of its holders says which one.
function push.freed(admitted_set_key)
  local id = admitted_set_key:match("^ff:quota:%b{}:(.*):admitted_set$")
  if id then
    call("PUBLISH", "ff:freed", id)
  end
end

-- A running execution is taken from the holder that its record names.
function push.lost(core, id)
  if core.lifecycle_phase == "active" and text.set(core.current_worker_instance_id) then
    call("PUBLISH", "ff:lost:" .. core.current_worker_instance_id, id)
  end
end

-- The output of an attempt has changed; its meta key says which one.
function push.frames(meta_key)
  local id, index = meta_key:match("^ff:stream:%b{}:(.*):(%d+):meta$")
  if id then
    call("PUBLISH", "ff:frames:" .. id, index)
  end
end
