-- Moves an execution from the eligible index to a blocked one until admission releases it. Only an
-- execution that is eligible, or already held by admission, can be held: a delay, an unresolved
-- dependency and a standing claim grant are kept, and an operator's pause is replaced only by
-- another pause. The target is the index of the blocking reason in the lane of the record, whatever
-- key the caller passed.
-- Keys: exec_core (hash), eligible (zset), blocked (zset)
-- Arguments: execution_id, blocking_reason, blocking_detail, now_ms
-- Replies: blocked
-- Errors: invalid_input, execution_not_found, execution_not_active, execution_not_eligible,
--   invalid_blocking_reason
-- Bound: 30
-- Keeps: OneHome, NoRunBeforeParents, NotBeforeDue, ErrorMeansUntouched
define("ff_block_execution_for_admission",
  { "exec_core!=hash", "eligible!:zset", "blocked!:zset" },
  { "execution_id!", "blocking_reason", "blocking_detail", "now_ms" },
  function(k, a)
    local now, refused = number.clock(a)
    if not now then return refused end
    local core, id = record.read(k.exec_core), a.execution_id
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase == "terminal" then return lease.not_active(core) end
    if core.lifecycle_phase ~= "runnable" then return err("execution_not_eligible") end
    local eligibility = admission.ELIGIBILITY_OF_REASON[a.blocking_reason or ""]
    if not eligibility then return err("invalid_blocking_reason") end
    if not admission.may_hold(k, core, a.blocking_reason, number.now()) then
      return err("execution_not_eligible")
    end
    local home, stale_keys, from = admission.home(k, core, eligibility), nil, nil
    stale_keys, refused = lane.locate(k, core, { "eligible" })
    if not stale_keys then return refused end
    from, refused = admission.leaving(k, core)
    refused = refused or guard.mismatch(home, "zset")
    if refused then return refused end
    -- write; nothing below can fail
    state.put(k.exec_core,
      state.held(eligibility, a.blocking_reason, text.present(a.blocking_detail, ""),
        text.either(core.attempt_state, "pending_first_attempt")),
      { "last_transition_at", a.now_ms, "last_mutation_at", a.now_ms })
    lane.move(id, text.append({ k.eligible }, stale_keys, from), home, now)
    return ok("blocked")
  end)
