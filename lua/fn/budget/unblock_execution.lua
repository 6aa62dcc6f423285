-- Makes an execution eligible again that admission held. One that the policy of its lane paused is
-- released only if the caller names that reason. The target is the eligible index of the record's
-- own lane, whatever key the caller passed.
-- Keys: exec_core (hash), blocked (zset), eligible (zset)
-- Arguments: execution_id, now_ms, expected_blocking_reason (empty: any)
-- Replies: unblocked
-- Errors: invalid_input, execution_not_found, execution_not_eligible
-- Bound: 24
-- Keeps: OneHome, ErrorMeansUntouched
define("ff_unblock_execution",
  { "exec_core!=hash", "blocked!:zset", "eligible!:zset" },
  { "execution_id!", "now_ms", "expected_blocking_reason" },
  function(k, a)
    local now, refused = number.clock(a)
    if not now then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local expected = text.either(a.expected_blocking_reason, core.blocking_reason)
    if core.lifecycle_phase ~= "runnable"
      or not admission.may_release(core, a.expected_blocking_reason)
      or expected ~= core.blocking_reason then
      return err("execution_not_eligible")
    end
    local stale_keys, from
    stale_keys, refused = lane.locate(k, core, { "eligible" })
    if not stale_keys then return refused end
    from, refused = admission.leaving(k, core)
    if not from then return refused end
    -- write; nothing below can fail
    state.put(k.exec_core,
      state.eligible(text.either(core.attempt_state, "pending_first_attempt")),
      { "last_transition_at", a.now_ms, "last_mutation_at", a.now_ms })
    lane.move(a.execution_id, text.append(from, stale_keys), k.eligible, lane.eligible_score(core))
    return ok("unblocked")
  end)
