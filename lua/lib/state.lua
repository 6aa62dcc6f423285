-- The execution state vector. A row names all its dimensions; `state.write` is the only place that
-- writes them, always together, so no record can ever hold half a vector (VectorWhole).
--
--   runnable ──claim──▶ active ──complete, fail, cancel, expire──▶ terminal
--      ▲  ▲               │ │                                        │
--      │  └──retry, delay─┘ └─suspend─▶ suspended ──resume──▶ runnable│
--      └───────────────────────────replay────────────────────────────┘

-- Rows are never changed: those without a parameter are made once.
local function row(phase, ownership, eligibility, reason, detail, outcome, attempt_state, public)
  return {
    lifecycle_phase = phase,
    ownership_state = ownership,
    eligibility_state = eligibility,
    blocking_reason = reason,
    blocking_detail = detail,
    terminal_outcome = outcome,
    attempt_state = attempt_state,
    public_state = public,
  }
end

-- Ready to be claimed. `attempt_state` says how: pending_* with a new attempt, attempt_interrupted
-- with the current one.
local NEW = row("runnable", "unowned", "eligible_now", "waiting_for_worker", "", "none",
  "pending_first_attempt", "waiting")
function state.eligible(attempt_state)
  if attempt_state == "pending_first_attempt" then
    return NEW
  end
  return row("runnable", "unowned", "eligible_now", "waiting_for_worker", "", "none",
    attempt_state, "waiting")
end

-- Ready at a later time; `reason` is waiting_for_delay, _retry_backoff or _resume_delay.
function state.delayed(reason, detail, attempt_state)
  return row("runnable", "unowned", "not_eligible_until_time", reason, detail, "none",
    attempt_state, "delayed")
end

-- Blocked by its dependencies.
function state.waiting_children(detail, attempt_state)
  return row("runnable", "unowned", "blocked_by_dependencies", "waiting_for_children", detail,
    "none", attempt_state, "waiting_children")
end

-- Held by admission; the contract stores rate_limited for every reason.
function state.held(eligibility, reason, detail, attempt_state)
  return row("runnable", "unowned", eligibility, reason, detail, "none", attempt_state,
    "rate_limited")
end

-- Running under a live lease.
local ACTIVE =
  row("active", "leased", "not_applicable", "none", "", "none", "running_attempt", "active")
function state.active()
  return ACTIVE
end

-- Still active, but its lease is gone: `ownership` is lease_expired_reclaimable or lease_revoked.
function state.ownerless(core, ownership, detail)
  return row(text.either(core.lifecycle_phase, "active"), ownership,
    text.either(core.eligibility_state, "not_applicable"), "waiting_for_worker", detail,
    text.either(core.terminal_outcome, "none"), "attempt_interrupted", "active")
end

-- Waiting for a signal, an operator or its timeout.
function state.suspended(reason, detail, attempt_state)
  return row("suspended", "unowned", "not_applicable", reason, detail, "none", attempt_state,
    "suspended")
end

local PUBLIC_OF_OUTCOME = {
  success = "completed",
  failed = "failed",
  cancelled = "cancelled",
  expired = "expired",
  skipped = "skipped",
}

-- Ended. Only a replay leaves this state.
local COMPLETED = row("terminal", "unowned", "not_applicable", "none", "", "success",
  "attempt_terminal", "completed")
function state.terminal(outcome, attempt_state)
  if outcome == "success" and attempt_state == "attempt_terminal" then
    return COMPLETED
  end
  return row("terminal", "unowned", "not_applicable", "none", "", outcome, attempt_state,
    PUBLIC_OF_OUTCOME[outcome])
end

-- Writes the whole vector and `more` = { field, value, … } in one HSET.
function state.put(core_key, vector, more)
  state.write(core_key, vector, unpack(number.texts(more)))
end

-- The same for further fields that are known beforehand: field, value, … as texts.
function state.write(core_key, vector, ...)
  call("HSET", core_key,
    "lifecycle_phase", vector.lifecycle_phase,
    "ownership_state", vector.ownership_state,
    "eligibility_state", vector.eligibility_state,
    "blocking_reason", vector.blocking_reason,
    "blocking_detail", vector.blocking_detail,
    "terminal_outcome", vector.terminal_outcome,
    "attempt_state", vector.attempt_state,
    "public_state", vector.public_state,
    ...)
end

-- The attempt state of an execution that ends by force: closed if an attempt was ever opened.
function state.ended_attempt(core)
  if text.set(core.current_attempt_index) then
    return "attempt_terminal"
  end
  return text.either(core.attempt_state, "none")
end
