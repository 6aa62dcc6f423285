-- The end of an execution: the only way to become terminal, and the announcement that a member of a
-- flow ended. The announcement is a hint: a scan finds the same.

local NOTHING = {}

completion.CHANNEL = "ff:dag:completions"

-- Publishes the end of `execution_id` when it belongs to a flow.
function completion.announce(execution_id, flow_id, outcome)
  if flow_id and flow_id ~= "" and text.set(execution_id) then
    call("PUBLISH", completion.CHANNEL, cjson.encode({
      execution_id = execution_id,
      flow_id = flow_id,
      outcome = outcome,
    }))
  end
end

-- Makes an execution terminal: state, lease, indexes, announcement. `how` = { outcome, now, home
-- and from = lane indexes to leave, attempt_state (attempt_terminal unless given), fields = more
-- core fields as texts, those of a renewal included if the lease may have been renewed, quiet =
-- true for an end that its flow brought about itself }.
function completion.finish(k, id, core, how)
  local at = number.digits(how.now)
  state.write(k.exec_core,
    state.terminal(how.outcome, how.attempt_state or "attempt_terminal"),
    "current_lease_id", "", "current_worker_id", "", "current_worker_instance_id", "",
    "lease_expires_at", "",
    "completed_at", at, "last_transition_at", at, "last_mutation_at", at,
    unpack(how.fields or NOTHING))
  lease.release(k, id, core)
  lane.move(id, how.from, k.terminal, how.now, how.home)
  if not guard.found_missing(k.execution_deadline) then
    call("ZREM", k.execution_deadline, id)
  end
  if not how.quiet then
    completion.announce(id, core.flow_id, how.outcome)
  end
end

-- The fields of a record that ending or retrying the execution by force needs.
completion.NEEDS = {
  "lane_id", "current_lane", "flow_id", "lifecycle_phase", "eligibility_state", "attempt_state",
  "current_attempt_index", "current_attempt_id", "current_lease_id", "current_lease_epoch",
  "current_worker_id", "current_worker_instance_id", "retry_count",
}

-- The indexes that an execution may be moved to when its current index is known.
local WAYS_OUT = { "eligible", "delayed", "active", "terminal" }

-- What ending an execution by force will touch, all keys checked: in any phase, without its lease
-- holder. It leaves every index that may list it, or only `home` if that is known to be the one.
-- Answers { core, stale_keys, closing, from = lane indexes to leave }, or nil and a refusal.
function completion.prepare(k, id, core, home)
  local refused = attempt.locate(k, id, core)
  if refused then
    return nil, refused
  end
  local stale_keys
  stale_keys, refused = lane.locate(k, core, home and WAYS_OUT or lane.ALL)
  if not stale_keys then
    return nil, refused
  end
  local closing
  if core.lifecycle_phase == "suspended" then
    closing, refused = suspension.closing(k.suspension_current,
      { waitpoint = k.waitpoint, condition = k.wp_condition })
    if not closing then
      return nil, refused
    end
  end
  local from = home and { home } or lane.live(k, stale_keys)
  return { core = core, stale_keys = stale_keys, closing = closing, from = from }
end

-- Ends the open attempt and its stream, if there are any, and closes a suspension.
local function end_attempt(k, id, plan, how)
  local core, phase = plan.core, plan.core.lifecycle_phase
  local opened = phase == "active" or phase == "suspended"
    or core.attempt_state == "attempt_interrupted"
  if not opened then
    return
  end
  if text.set(core.current_attempt_index) then
    attempt.finish(k.attempt, how.attempt_end, how.now, { "failure_reason", how.attempt_reason })
  end
  stream.close(k.stream_meta, how.stream_reason, how.now)
  if plan.closing then
    suspension.close(plan.closing, { reason = how.suspension_reason }, how.now)
  end
  if phase == "active" then
    lease.history(k.lease_history, "released", lease.EVENT.released,
      lease.current(core, how.now, how.release_reason))
    push.lost(core, id)
  end
end

-- Ends an execution by force. `how` = as for completion.finish, and attempt_end, attempt_reason,
-- stream_reason, suspension_reason, release_reason: what each record says about the end.
function completion.force(k, id, plan, how)
  end_attempt(k, id, plan, how)
  call("ZREM", k.suspension_timeout, id)
  how.from = plan.from
  how.attempt_state = state.ended_attempt(plan.core)
  text.append(how.fields, lease.NO_RENEWAL,
    { "current_suspension_id", "", "current_waitpoint_id", "" })
  completion.finish(k, id, plan.core, how)
end

-- Cancels an execution. A cancel that comes from its flow is not announced.
function completion.cancel(k, id, plan, reason, by, now)
  completion.force(k, id, plan, {
    outcome = "cancelled",
    now = now,
    attempt_end = "ended_cancelled",
    attempt_reason = "cancelled: " .. reason,
    stream_reason = "attempt_cancelled",
    suspension_reason = "cancelled",
    release_reason = "cancelled",
    fields = { "cancellation_reason", reason, "cancelled_by", by },
    quiet = by == "flow_cascade",
  })
end

-- Expires an execution: `reason` is attempt_timeout or execution_deadline.
function completion.expire(k, id, plan, reason, now)
  completion.force(k, id, plan, {
    outcome = "expired",
    now = now,
    attempt_end = "ended_failure",
    attempt_reason = reason,
    stream_reason = "expired",
    suspension_reason = "expired:" .. reason,
    release_reason = "expired:" .. reason,
    fields = { "failure_reason", reason },
  })
end
