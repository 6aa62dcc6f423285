-- Output streams of attempts, and the meta record that says whether one is still open.

-- `ff:stream:<tag>:<eid>:<index>:meta`
function stream.meta(tag, execution_id, index)
  return "ff:stream:" .. tag .. ":" .. execution_id .. ":" .. (index or "") .. ":meta"
end

-- The meta record of the attempt that `core` is at, nil before the first.
function stream.meta_of_current_attempt(core_key, core)
  if not text.set(core.current_attempt_index) then
    return nil
  end
  return stream.meta(text.tag(core_key), text.execution_of(core_key), core.current_attempt_index)
end

-- Closes a stream that was ever opened, even if it was closed before.
function stream.close(meta_key, reason, now)
  if text.set(meta_key) and not guard.found_missing(meta_key)
    and call("EXISTS", meta_key) == 1 then
    call("HSET", meta_key, "closed_at", number.digits(now), "closed_reason", reason)
    push.frames(meta_key)
  end
end

-- Closes a stream unless it is closed already.
function stream.close_if_open(meta_key, reason, now)
  if text.set(meta_key) and call("EXISTS", meta_key) == 1
    and not text.set(call("HGET", meta_key, "closed_at")) then
    call("HSET", meta_key, "closed_at", number.digits(now), "closed_reason", reason)
    push.frames(meta_key)
  end
end
