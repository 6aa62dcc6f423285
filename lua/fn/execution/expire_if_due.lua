-- The checked form of ff_expire_execution: acts only when the index entry is due by the server's
-- clock, and on an attempt timeout only if the expected attempt is current. A timed out attempt is
-- retried if the stored retry policy allows it. An added function.
-- Keys: exec_core (hash)
-- Arguments: execution_id, expected_attempt_index, reason (attempt_timeout or execution_deadline)
-- Replies: expired, retry_scheduled, not_due, other_attempt, already_terminal, not_found_cleaned
-- Errors: invalid_input
-- Bound: 99 + 6 * n
-- Keeps: NotBeforeDue, OneHome, AttemptsHonest, VectorWhole

-- The keys of an execution that its end touches, by its phase; all of them for an unknown phase.
local TOUCHED = {
  runnable = { "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout",
    "worker_leases" },
  active = { "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout",
    "worker_leases", "lease_history" },
  suspended = { "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout",
    "worker_leases", "suspension_current" },
}

-- The reply to a call about an entry that is missing or not due yet, else nil.
local function early_reply(score, now)
  if not score then
    return ok("not_due")
  elseif tonumber(score) > now then
    return ok("not_due", math.ceil(tonumber(score)))
  end
  return nil
end

-- Whether an execution waits that has never run: it has no lease, attempt or suspension, and only
-- one lane index and its deadline list it.
local function never_ran(core)
  return core.lifecycle_phase == "runnable" and not text.set(core.current_attempt_index)
    and not text.set(core.current_lease_id)
end

-- Expires such an execution by its deadline. Nil if its record does not say which index lists it.
local function expire_unstarted(core_key, id, core, now)
  local tag = text.tag(core_key)
  local deadline = lane.partition_index(tag, "execution_deadline")
  local due = try("ZSCORE", deadline, id)
  local refused = guard.refusal(due)
  if refused then return guard.named(refused, deadline) end
  local answer = early_reply(due, now)
  if answer then return answer end
  local home = lane.home(core_key, id, core)
  if not home then return nil end
  local terminal = lane.index(tag, core.lane_id, "terminal")
  refused = guard.mismatch(terminal, "zset")
  if refused then return refused end
  -- write; nothing below can fail
  local at = number.digits(now)
  state.write(core_key, state.terminal("expired", state.ended_attempt(core)),
    "failure_reason", "execution_deadline",
    "completed_at", at, "last_transition_at", at, "last_mutation_at", at)
  call("ZREM", deadline, id)
  lane.move(id, lane.NONE, terminal, now, home)
  completion.announce(id, core.flow_id, "expired")
  return ok("expired", core.lifecycle_phase)
end

local function forget(k, id, word)
  -- write; nothing below can fail
  attempt.clear_limits(k, id)
  return ok(word)
end

-- The reply to a call that is too early or means an attempt that is over, else nil.
local function not_due_reply(k, id, core, a, now)
  local timeout = a.reason == "attempt_timeout"
  local score = call("ZSCORE", timeout and k.attempt_timeout or k.execution_deadline, id)
  if timeout and core.lifecycle_phase ~= "active" then
    call("ZREM", k.attempt_timeout, id)
    return ok("not_due")
  end
  local answer = early_reply(score, now)
  if not answer and timeout and text.present(core.current_attempt_index, "")
    ~= text.present(a.expected_attempt_index, "") then
    return ok("other_attempt", core.current_attempt_index)
  end
  return answer
end

local function retry(k, id, plan, retry_at, now)
  local core, reason = plan.core, "attempt_timeout"
  attempt.finish(k.attempt, "ended_failure", now,
    { "failure_reason", reason, "failure_category", "timeout" })
  stream.close(k.stream_meta, "expired", now)
  lease.history(k.lease_history, "released", lease.EVENT.released,
    lease.current(core, now, "expired:" .. reason))
  push.lost(core, id)
  attempt.schedule_retry(k, id, core, plan.from, retry_at, reason, now)
  return ok("retry_scheduled", retry_at)
end

define("ff_expire_if_due",
  { "exec_core!=hash" },
  { "execution_id!", "expected_attempt_index", "reason!" },
  function(given, a)
    if a.reason ~= "attempt_timeout" and a.reason ~= "execution_deadline" then
      return err("invalid_input", "reason must be attempt_timeout or execution_deadline")
    end
    local core, refused = record.select(given.exec_core, completion.NEEDS)
    if refused then return refused end
    local id, now, k = a.execution_id, number.now(), nil
    if core and a.reason == "execution_deadline" and never_ran(core) then
      local answer = record.misnamed(given.exec_core, id)
        or expire_unstarted(given.exec_core, id, core, now)
      if answer then return answer end
    end
    k, refused = record.checked_keys(given.exec_core, id, core or {},
      core and TOUCHED[core.lifecycle_phase])
    if not k then return refused end
    if not core then return forget(k, id, "not_found_cleaned") end
    if core.lifecycle_phase == "terminal" then return forget(k, id, "already_terminal") end
    local answer = not_due_reply(k, id, core, a, now)
    if answer then return answer end
    local plan
    plan, refused = completion.prepare(k, id, core, lane.home(k.exec_core, id, core))
    if not plan then return refused end
    local retry_at = a.reason == "attempt_timeout" and attempt.retry_at(id, core,
      policy.object(policy.read(k.exec_core).retry_policy), "timeout", now)
    -- write; nothing below can fail
    if retry_at then
      return retry(k, id, plan, retry_at, now)
    end
    completion.expire(k, id, plan, a.reason, now)
    return ok("expired", core.lifecycle_phase)
  end)
