-- Claims: how an eligible execution becomes active, with a new attempt or a resumed one. Everything
-- is planned and checked first; carrying the plan out cannot fail.

-- What the lease history calls a claim, by where it came from.
claim.BY_WORKER = { resumed = "claim_resumed" }
claim.BY_OPERATOR = {
  fresh = "issue_grant_and_claim",
  resumed = "issue_grant_and_claim_resumed",
  is_contract = true,
}

-- How long the answer of a claim is stored at least; for a longer lease, as long as the lease.
claim.NOTE_MS = 60000

-- What the first claim of an execution needs of its record, and what the search of a worker needs.
claim.FIRST = {
  "lane_id", "lifecycle_phase", "ownership_state", "eligibility_state", "terminal_outcome",
  "total_attempt_count", "current_lease_epoch", "flow_id", "attempt_state",
}
claim.SEARCH = {
  "attempt_state", "lifecycle_phase", "ownership_state", "eligibility_state",
  "lane_id", "terminal_outcome", "total_attempt_count", "current_lease_epoch",
  "last_transition_at",
  "execution_kind", "flow_id", "required_capabilities", "budget_ids", "quota_policy_id",
  "namespace",
}

-- The record of an execution that may be claimed: the fields `names`, or all of them unless its
-- first attempt is next: then it never started, in no lane. Nil if there is none, or nil and the
-- refusal of a key of another type. `values` = those of the fields if they were read.
function claim.read(core_key, names, values)
  local core, refused
  if values then
    core, refused = record.named(core_key, names, values)
  else
    core, refused = record.select(core_key, names)
  end
  if core and core.attempt_state ~= "pending_first_attempt" then
    return record.read(core_key)
  end
  return core, refused
end

-- Looks at once at the keys that the first claim of an execution writes to: none of them exists,
-- unless something was left behind. Saves as many lookups of their types, and two deletions.
-- Whether that is so.
function claim.is_untouched(k, id, core)
  if core.total_attempt_count ~= "0" then return false end
  local opened = attempt.key(text.tag(k.exec_core), id, "0")
  local usage = opened .. ":usage"
  return call("EXISTS", k.claim_grant, k.attempts, k.lease_current, k.lease_history, opened,
    usage) == 0
    and guard.note_all_missing(k.attempts, k.lease_history, k.claim_grant, k.lease_current, opened,
      usage)
end

-- Whether the next claim continues the current attempt.
local function resumes(core)
  return core.attempt_state == "attempt_interrupted" and text.set(core.current_attempt_index)
end

local function plan_to_resume(k, id, core, a, now, ttl)
  local refused = attempt.locate(k, id, core)
  if refused then return nil, refused end
  local timeout_at
  timeout_at, refused = attempt.resumed_timeout(k, core, nil, now)
  refused = refused or guard.mismatch(k.attempt_timeout, "zset")
  if refused then return nil, refused end
  return {
    resumes = true,
    kind = "resumed",
    index = core.current_attempt_index,
    held = lease.terms(core, a, core.current_attempt_id, now, ttl),
    fields = { "attempt_time_left_ms", "" },
    limits = { timeout_at = timeout_at, clears = true },
    -- Filled in by claim.plan and by the search.
    id = nil, keys = nil, execution_kind = nil, flow_id = nil, payload = nil, policy = nil,
    waited_ms = nil, stale_keys = nil,
  }
end

local function plan_afresh(k, id, core, a, now, ttl, policy_text)
  local limits, refused = attempt.limits(k, id, core, a, now, policy_text)
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
    -- Filled in by claim.plan and by the search.
    id = nil, keys = nil, execution_kind = nil, flow_id = nil, payload = nil, policy = nil,
    waited_ms = nil, stale_keys = nil,
  }
end

-- The plan to claim the execution for the worker in `a`, or nil and a refusal. Needs the keys of
-- lease.grant and attempt.open; k.eligible and k.active are pointed at the execution's own lane.
-- `policy_text` = its policy, if it was read already.
local LANES = { "eligible", "active" }
function claim.plan(k, id, core, a, now, ttl, policy_text)
  local stale_keys, refused = lane.locate(k, core, LANES)
  if not stale_keys then return nil, refused end
  local planned
  if resumes(core) then
    planned, refused = plan_to_resume(k, id, core, a, now, ttl)
  else
    planned, refused = plan_afresh(k, id, core, a, now, ttl, policy_text)
  end
  if not planned then return nil, refused end
  planned.stale_keys = stale_keys
  return planned
end

-- Carries out a plan. `by` is claim.BY_WORKER or claim.BY_OPERATOR. Our own claims leave out what
-- no function and no reader of the contract looks at: the usage record; the lease record, which
-- repeats the core until a renewal writes it; the history of a first run, which its attempt
-- repeats.
function claim.carry_out(k, id, planned, by)
  local held = planned.held
  if planned.resumes then
    attempt.resume(k.attempt, held)
  else
    attempt.open(k.attempts, id, planned.attempt, held, planned.kind, planned.lineage)
  end
  if by.is_contract then
    if not planned.resumes then attempt.open_usage(planned.attempt) end
    lease.write_record(k.lease_current, id, held)
  else
    lease.remove_record(k.lease_current)
  end
  lease.grant(k, id, held, planned.fields, planned.stale_keys)
  attempt.write_limits(k, id, planned.limits)
  if planned.resumes then
    lease.history(k.lease_history, "acquired", lease.EVENT.acquired_resumed,
      lease.acquired(held, planned.index, by.resumed))
  elseif by.is_contract or planned.index ~= "0" then
    lease.add_acquired(k.lease_history, held, planned.index, by.fresh)
  end
end

-- The keys of one execution that a claim needs, beside the partition's keys in `k`.
function claim.keys(k, tag, id)
  local prefix = "ff:exec:" .. tag .. ":" .. id .. ":"
  return {
    exec_core = prefix .. "core",
    claim_grant = prefix .. "claim_grant",
    attempts = prefix .. "attempts",
    lease_current = prefix .. "lease:current",
    lease_history = prefix .. "lease:history",
    payload = prefix .. "payload",
    policy = prefix .. "policy",
    eligible = k.eligible, active = k.active,
    lease_expiry = k.lease_expiry, worker_leases = k.worker_leases,
    attempt_timeout = k.attempt_timeout, execution_deadline = k.execution_deadline,
  }
end

-- Whether the keys of one execution hold the types that a claim expects.
local function sound(k, id, core)
  local refused = not claim.is_untouched(k, id, core)
    and (guard.mismatch(k.claim_grant, "hash") or guard.mismatch(k.attempts, "zset")
      or guard.mismatch(k.lease_history, "stream") or guard.clash(k.lease_current, "hash"))
  return not (refused or guard.clash(k.payload, "string") or guard.clash(k.policy, "string")
    or core.flow_id and guard.mismatch(flow.core_of_member(k.exec_core, core), "hash"))
end

-- What to do with a member of the eligible index: "drop" it (it is not eligible by its record, or
-- has none), "skip" it (not now, or not for this worker), or "take" it.
function claim.verdict(k, id, core, worker_csv, now)
  if not core or core.lifecycle_phase ~= "runnable"
    or core.eligibility_state ~= "eligible_now" then
    return "drop"
  end
  if core.ownership_state ~= "unowned" or core.terminal_outcome ~= "none"
    or core.attempt_state == "running_attempt"
    or text.set(core.required_capabilities)
      and capability.lacking(core.required_capabilities, worker_csv) ~= "" then
    return "skip"
  end
  if not sound(k, id, core) or grant.stands(k.claim_grant, now) then
    return "skip"
  end
  return core.flow_id and flow.cancel_covers(k.exec_core, core) and "skip" or "take"
end

-- How long the execution has been eligible: milliseconds as digits.
function claim.waited_ms(since, now)
  local waited = now - number.floor(since, now)
  return waited > 0 and number.digits(waited) or "0"
end

-- A text that a claim answers: "" if there is none, nil if the key holds another type.
function claim.text(key)
  local value = try("GET", key)
  if type(value) == "table" then
    guard.refusal(value)
    return nil
  end
  return value or ""
end

-- What a worker needs to start: the reply to a claim, all as texts.
function claim.answer(planned)
  local held = planned.held
  return {
    1, "OK", "claimed", planned.id, held.lease_id, held.lease_epoch, held.expires_at,
    held.attempt_id, planned.index, planned.kind, planned.execution_kind, planned.flow_id,
    planned.payload, planned.policy, planned.waited_ms,
  }
end

-- The same for the current lease of `core`, to a worker that repeats its call.
function claim.answer_again(k, tag, id, core, waited_ms)
  local run = record.fields(attempt.key(tag, id, core.current_attempt_index), "attempt_type",
    "resumed_at")
  return ok("claimed", id, core.current_lease_id, core.current_lease_epoch, core.lease_expires_at,
    core.current_attempt_id, core.current_attempt_index,
    text.set(run.resumed_at) and "resumed" or run.attempt_type, core.execution_kind,
    core.flow_id, call("GET", k.payload), call("GET", k.policy), waited_ms)
end
