-- How a suspension times out: an operator takes over, or the execution ends.

-- The end for each behaviour; any other behaviour is treated as fail.
local ENDS = {
  cancel = {
    outcome = "cancelled", attempt_state = "ended_cancelled", reason = "timed_out_cancel",
  },
  expire = { outcome = "expired", attempt_state = "ended_failure", reason = "timed_out_expire" },
}
local FAIL = { outcome = "failed", attempt_state = "ended_failure", reason = "timed_out_fail" }

-- Hands the suspension to an operator: it keeps waiting, without a timeout. Its waitpoints stay
-- open.
function suspension.escalate(k, id, core, held, now)
  state.put(k.exec_core, state.suspended("paused_by_operator",
    "suspension escalated: timeout at " .. held.timeout_at,
    text.either(core.attempt_state, "attempt_interrupted")), { "last_mutation_at", now })
  record.write(k.suspension, {
    "reason_code", "waiting_for_operator_review", "timeout_at", "", "timeout_behavior", "",
  })
  call("ZREM", k.suspension_timeout, id)
  lane.move(id, {}, k.suspended, suspension.NEVER)
  return ok("escalate", "suspended")
end

-- Ends the execution and closes everything that waited with it.
function suspension.time_out(k, id, core, closing, behaviour, now)
  local ends = ENDS[behaviour] or FAIL
  local failure = "suspension_timeout:" .. behaviour
  state.put(k.exec_core, state.terminal(ends.outcome, "attempt_terminal"), {
    "failure_reason", failure, "completed_at", now,
    "current_suspension_id", "", "current_waitpoint_id", "",
    "last_transition_at", now, "last_mutation_at", now,
  })
  if text.set(core.current_attempt_index) then
    attempt.finish(k.attempt, ends.attempt_state, now,
      { "failure_reason", failure, "suspended_at", "", "suspension_id", "" })
  end
  stream.close(k.stream_meta, "suspension_timeout", now)
  suspension.close(closing, { reason = ends.reason }, now)
  call("ZREM", k.suspension_timeout, id)
  local deadlines = lane.partition_index(text.tag(k.exec_core), "execution_deadline")
  if not guard.mismatch(deadlines, "zset") then
    call("ZREM", deadlines, id)
  end
  lane.move(id, { k.suspended }, k.terminal, now)
  completion.announce(id, core.flow_id, ends.outcome)
  return ok(behaviour, ends.outcome)
end
