-- Ends an execution whose attempt timeout or deadline has passed. Without an index entry the call
-- is obeyed. An entry that is clearly in the future, or an attempt timeout while no attempt runs,
-- means that the caller's read is outdated: then nothing ends.
-- Keys: exec_core (hash), attempt (hash), stream_meta (hash), lease_current (hash),
--   lease_history (stream), lease_expiry (zset), worker_leases (set), active (zset),
--   terminal (zset), attempt_timeout (zset), execution_deadline (zset), suspended (zset),
--   suspension_timeout (zset), suspension_current (hash)
-- Arguments: execution_id, expire_reason
-- Replies: expired, already_terminal, not_found_cleaned, not_due
-- Errors: invalid_input
-- Bound: 93 + 6 * n
-- Keeps: OneHome, AttemptsHonest, VectorWhole, LegalTransition

-- Callers' clocks may be ahead of the server's by this much.
local TOLERANCE_MS = 100

local function due(k, id, core, reason, now)
  if reason == "attempt_timeout" and core.lifecycle_phase == "runnable" then
    return false
  end
  local index = reason == "execution_deadline" and k.execution_deadline or k.attempt_timeout
  local score = call("ZSCORE", index, id)
  if not score then
    return reason ~= "attempt_timeout" or core.lifecycle_phase ~= "suspended"
  end
  return tonumber(score) <= now + TOLERANCE_MS
end

local function forget(k, id, word)
  -- write; nothing below can fail
  attempt.clear_limits(k, id)
  return ok(word)
end

define("ff_expire_execution",
  { "exec_core!=hash", "attempt!=hash", "stream_meta!:hash", "lease_current!=hash",
    "lease_history!:stream", "lease_expiry!:zset", "worker_leases!:set", "active!:zset",
    "terminal!:zset", "attempt_timeout!:zset", "execution_deadline!:zset", "suspended!:zset",
    "suspension_timeout!:zset", "suspension_current!:hash" },
  { "execution_id!", "expire_reason" },
  function(k, a)
    local id, reason = a.execution_id, text.present(a.expire_reason, "attempt_timeout")
    local core = record.read(k.exec_core)
    if not core then return forget(k, id, "not_found_cleaned") end
    if core.lifecycle_phase == "terminal" then return forget(k, id, "already_terminal") end
    local now = number.now()
    if not due(k, id, core, reason, now) then
      if core.lifecycle_phase == "runnable" then
        call("ZREM", k.attempt_timeout, id)
      end
      return already_satisfied("not_due")
    end
    local plan, refused = completion.prepare(k, id, core)
    if not plan then return refused end
    -- write; nothing below can fail
    completion.expire(k, id, plan, reason, now)
    return ok("expired", core.lifecycle_phase)
  end)
