-- Claims: how an eligible execution becomes active, with a new attempt or a resumed one. Everything
-- is planned and checked first; carrying the plan out cannot fail.

-- What the lease history calls a claim, by where it came from.
claim.BY_WORKER = { fresh = "acquired", resumed = "claim_resumed" }
claim.BY_OPERATOR = {
  fresh = "acquired_fresh_by_operator",
  fresh_reason = "issue_grant_and_claim",
  resumed = "issue_grant_and_claim_resumed",
}

-- Whether the next claim continues the current attempt.
local function resumes(core)
  return core.attempt_state == "attempt_interrupted" and text.set(core.current_attempt_index)
end

local function plan_to_resume(k, id, core, a, now, ttl)
  local refused = attempt.locate(k, id, core)
  if refused then return nil, refused end
  local timeout_at
  timeout_at, refused = attempt.resumed_timeout(k, core, nil, now)
  if refused then return nil, refused end
  return {
    resumes = true,
    kind = "resumed",
    index = core.current_attempt_index,
    held = lease.terms(core, a, core.current_attempt_id, now, ttl),
    fields = { "attempt_time_left_ms", "" },
    limits = { timeout_at = timeout_at },
  }
end

local function plan_afresh(k, id, core, a, now, ttl)
  local limits, refused = attempt.limits(k, id, core, a, now)
  if not limits then return nil, refused end
  local opened
  opened, refused = attempt.plan(k, id, core, a.attempt_policy_json)
  if not opened then return nil, refused end
  local held = lease.terms(core, a, a.attempt_id, now, ttl)
  local kind, lineage = attempt.lineage(core)
  return {
    kind = kind,
    lineage = lineage,
    index = opened.index,
    attempt = opened,
    held = held,
    fields = attempt.current_fields(core, opened, held),
    limits = limits,
  }
end

-- The plan to claim the execution for the worker in `a`, or nil and a refusal. Needs the keys of
-- lease.grant and attempt.open; k.eligible and k.active are pointed at the execution's own lane.
function claim.plan(k, id, core, a, now, ttl)
  local stale_keys, refused = lane.locate(k, core, { "eligible", "active" })
  if not stale_keys then return nil, refused end
  local planned
  if resumes(core) then
    planned, refused = plan_to_resume(k, id, core, a, now, ttl)
  else
    planned, refused = plan_afresh(k, id, core, a, now, ttl)
  end
  if not planned then return nil, refused end
  planned.stale_keys = stale_keys
  return planned
end

-- Carries out a plan. `by` is claim.BY_WORKER or claim.BY_OPERATOR.
function claim.carry_out(k, id, planned, by)
  local event, reason = lease.EVENT.acquired_resumed, by.resumed
  if planned.resumes then
    attempt.resume(k.attempt, planned.held)
  else
    event, reason = lease.EVENT[by.fresh], by.fresh_reason
    attempt.open(k, id, planned.attempt, planned.held, planned.kind, planned.lineage)
  end
  lease.grant(k, id, planned.held, planned.fields, planned.stale_keys)
  attempt.write_limits(k, id, planned.limits)
  lease.history(k.lease_history, "acquired", event,
    lease.acquired(planned.held, planned.index, reason))
end

-- The keys of one execution that a claim needs, beside the partition's keys in `k`.
function claim.keys(k, tag, id)
  local keys = {}
  for name, key in pairs(k) do
    keys[name] = key
  end
  local prefix = "ff:exec:" .. tag .. ":" .. id .. ":"
  keys.exec_core = prefix .. "core"
  keys.claim_grant = prefix .. "claim_grant"
  keys.attempts = prefix .. "attempts"
  keys.lease_current = prefix .. "lease:current"
  keys.lease_history = prefix .. "lease:history"
  keys.payload = prefix .. "payload"
  keys.policy = prefix .. "policy"
  return keys
end

-- Whether the keys of one execution hold the types that a claim expects.
local function sound(k, core)
  return not guard.any_mismatch({
    { k.claim_grant, "hash" }, { k.attempts, "zset" }, { k.lease_history, "stream" },
    { k.payload, "string" }, { k.policy, "string" },
    { flow.core_of_member(k.exec_core, core), "hash" },
  }) and not guard.clash(k.lease_current, "hash")
end

-- What to do with a member of the eligible index: "drop" it (it is not eligible by its record, or
-- has none), "skip" it (not now, or not for this worker), or "take" it.
function claim.verdict(k, core, worker_csv, now)
  if not core or core.lifecycle_phase ~= "runnable"
    or core.eligibility_state ~= "eligible_now" then
    return "drop"
  end
  if core.ownership_state ~= "unowned" or core.terminal_outcome ~= "none"
    or core.attempt_state == "running_attempt"
    or capability.lacking(core.required_capabilities, worker_csv) ~= ""
    or not sound(k, core) or grant.stands(k.claim_grant, now) then
    return "skip"
  end
  return flow.cancel_covers(k.exec_core, core) and "skip" or "take"
end

-- How long the execution has been eligible: milliseconds as digits.
function claim.waited_ms(core, now)
  return number.digits(math.max(0, now - number.floor(core.last_transition_at, now)))
end

-- The fields of the record after the plan was carried out, as far as the reply has them.
function claim.outcome(planned)
  local held = planned.held
  return {
    current_lease_id = held.lease_id, current_lease_epoch = held.lease_epoch,
    lease_expires_at = held.expires_at, current_attempt_id = held.attempt_id,
    current_attempt_index = planned.index,
    execution_kind = planned.core.execution_kind, flow_id = planned.core.flow_id,
  }
end

-- What a worker needs to start: the reply to a claim and to its repetition.
function claim.answer(k, id, core, kind, waited_ms)
  return ok("claimed", id, core.current_lease_id, core.current_lease_epoch, core.lease_expires_at,
    core.current_attempt_id, core.current_attempt_index, kind, core.execution_kind, core.flow_id,
    call("GET", k.payload), call("GET", k.policy), waited_ms)
end
