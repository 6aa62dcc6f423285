-- Makes a delayed execution eligible when it is due. If the record has no time, the index entry's
-- score counts; if the two differ, the entry gets the record's time. An entry of an execution that
-- is not delayed is dropped; if that execution is eligible but not in the eligible index, it is
-- added there. The record's lane is used, whatever keys the caller passed.
-- Keys: exec_core (hash), delayed (zset), eligible (zset)
-- Arguments: execution_id, now_ms
-- Replies: promoted, not_found_cleaned, not_runnable_cleaned, not_delayed_cleaned, not_yet_due
-- Errors: invalid_input
-- Bound: 16
-- Keeps: NotBeforeDue, OneHome, WindowMoves, ErrorMeansUntouched
define("ff_promote_delayed",
  { "exec_core!=hash", "delayed!=zset", "eligible!=zset" },
  { "execution_id!", "now_ms" },
  function(k, a)
    local now, refused = number.clock(a)
    if not now then return refused end
    local id, core, stale_keys = a.execution_id, record.read(k.exec_core), nil
    local found, score = k.delayed, call("ZSCORE", k.delayed, id)
    stale_keys, refused = lane.locate(k, core or {}, { "delayed", "eligible" })
    refused = refused or guard.any_other(stale_keys, "zset")
    if refused then return refused end
    local listed = call("ZSCORE", k.eligible, id)
    score = tonumber(found ~= k.delayed and call("ZSCORE", k.delayed, id) or score)
    -- write; nothing below can fail
    local from = text.append({ k.delayed }, stale_keys)
    if not core then
      lane.move(id, from)
      return ok("not_found_cleaned")
    end
    if core.lifecycle_phase ~= "runnable" then
      lane.move(id, from)
      return ok("not_runnable_cleaned")
    end
    if core.eligibility_state ~= "not_eligible_until_time" then
      local home = core.eligibility_state == "eligible_now" and not listed and k.eligible or nil
      lane.move(id, from, home, lane.eligible_score(core))
      return ok("not_delayed_cleaned")
    end
    local due = number.either(core.delay_until, score or 0)
    if due > now then
      if score ~= due or found ~= k.delayed then lane.move(id, stale_keys, k.delayed, due) end
      return ok("not_yet_due")
    end
    state.put(k.exec_core, state.eligible(text.either(core.attempt_state, "pending_first_attempt")),
      { "delay_until", "", "last_transition_at", now, "last_mutation_at", now })
    lane.move(id, from, k.eligible, lane.eligible_score(core))
    return ok("promoted")
  end)
