-- Resumes a suspended execution for an operator, at once or after a delay.
-- Keys: exec_core (hash), suspension (hash), waitpoint (hash), wp_signals (ignored),
--   suspension_timeout (zset), eligible (zset), delayed (zset), suspended (zset)
-- Arguments: execution_id, trigger_type (ignored), resume_delay_ms
-- Replies: waiting, delayed
-- Errors: invalid_input, execution_not_found, execution_not_suspended
-- Bound: 31 + 6 * n
-- Keeps: VectorWhole, OneHome, RepeatIsHarmless
define("ff_resume_execution",
  { "exec_core!=hash", "suspension!=hash", "waitpoint", "wp_signals", "suspension_timeout!:zset",
    "eligible!:zset", "delayed!:zset", "suspended!:zset" },
  { "execution_id!", "trigger_type", "resume_delay_ms" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local held = record.read(k.suspension)
    if core.lifecycle_phase ~= "suspended" or not suspension.is_open(held) then
      return err("execution_not_suspended")
    end
    local delay, closing, stale_keys, refused
    delay, refused = suspension.delay(a.resume_delay_ms, held)
    if not delay then return refused end
    closing, refused = suspension.closing(k.suspension, { waitpoint = k.waitpoint }, held)
    if not closing then return refused end
    stale_keys, refused = lane.locate(k, core, { "eligible", "delayed", "suspended" })
    if not stale_keys then return refused end
    local now = number.now()
    -- write; nothing below can fail
    local public_state = suspension.resume(k, a.execution_id, core, now, delay,
      "resume delay " .. number.digits(delay) .. "ms")
    suspension.close(closing, { reason = "resumed", satisfied = true }, now)
    return ok(public_state)
  end)
