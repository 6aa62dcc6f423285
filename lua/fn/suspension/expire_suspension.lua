-- Applies the timeout behaviour of a suspension that is due by the server's clock: resumes it,
-- hands it to an operator, or ends the execution. Index entries of executions without such a
-- suspension are removed.
-- Keys: exec_core (hash), suspension (hash), waitpoint (hash), wp_condition (hash),
--   attempt (hash), stream_meta (hash), suspension_timeout (zset), suspended (zset),
--   terminal (zset), eligible (zset), delayed (ignored), lease_history (ignored)
-- Arguments: execution_id
-- Replies: not_found_cleaned, not_suspended_cleaned, no_active_suspension_cleaned, not_yet_due,
--   auto_resume, escalate, failed, cancelled, expired
-- Errors: invalid_input
-- Bound: 43 + 6 * n
-- Keeps: NotBeforeDue, VectorWhole, OneHome, AttemptsHonest
local function clean(k, id, word)
  call("ZREM", k.suspension_timeout, id)
  return ok(word)
end

-- Not due: the index entry gets the time of the record, so that it does not block others.
local function wait_on(k, id, timeout_at)
  if timeout_at > 0 then
    call("ZADD", k.suspension_timeout, "XX", number.digits(timeout_at), id)
  else
    call("ZREM", k.suspension_timeout, id)
  end
  return ok("not_yet_due")
end

define("ff_expire_suspension",
  { "exec_core!=hash", "suspension!=hash", "waitpoint", "wp_condition", "attempt!:hash",
    "stream_meta:hash", "suspension_timeout!:zset", "suspended!:zset", "terminal!:zset",
    "eligible!:zset", "delayed", "lease_history" },
  { "execution_id!" },
  function(k, a)
    local id, now = a.execution_id, number.now()
    local core = record.read(k.exec_core)
    if not core then return clean(k, id, "not_found_cleaned") end
    if core.lifecycle_phase ~= "suspended" then return clean(k, id, "not_suspended_cleaned") end
    local held = record.read(k.suspension)
    if not suspension.is_open(held) then return clean(k, id, "no_active_suspension_cleaned") end
    local timeout_at = number.either(held.timeout_at, 0)
    if timeout_at == 0 or timeout_at > now then return wait_on(k, id, timeout_at) end
    local refused = attempt.locate(k, id, core)
    if refused then return refused end
    local closing, stale_keys
    closing, refused = suspension.closing(k.suspension,
      { waitpoint = k.waitpoint, condition = k.wp_condition }, held)
    if not closing then return refused end
    stale_keys, refused = lane.locate(k, core, { "suspended", "terminal", "eligible" })
    if not stale_keys then return refused end
    local behaviour = text.present(held.timeout_behavior, "fail")
    -- write; nothing below can fail
    if behaviour == "auto_resume" or behaviour == "auto_resume_with_timeout_signal" then
      suspension.resume(k, id, core, now, 0)
      suspension.close(closing, { reason = "timed_out_auto_resume" }, now)
      return ok("auto_resume", "waiting")
    elseif behaviour == "escalate" then
      return suspension.escalate(k, id, core, held, now)
    end
    return suspension.time_out(k, id, core, closing, behaviour, now)
  end)
