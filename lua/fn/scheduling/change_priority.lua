-- Changes the priority of an eligible execution, and its score in the eligible index of its own
-- lane, whatever key the caller passed.
-- Keys: exec_core (hash), eligible (zset)
-- Arguments: execution_id, new_priority (held within 0 and 9000)
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_eligible
-- Bound: 8
-- Keeps: OneHome, ErrorMeansUntouched
define("ff_change_priority",
  { "exec_core!=hash", "eligible!:zset" },
  { "execution_id!", "new_priority" },
  function(k, a)
    local priority, refused = lane.priority(a.new_priority, "new_priority")
    if not priority then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase ~= "runnable" or core.eligibility_state ~= "eligible_now" then
      return err("execution_not_eligible")
    end
    local stale_keys
    stale_keys, refused = lane.locate(k, core, { "eligible" })
    if not stale_keys then return refused end
    local written = string.format("%.14g", priority)
    -- write; nothing below can fail
    call("HSET", k.exec_core, "priority", written,
      "last_mutation_at", number.digits(number.now()))
    lane.move(a.execution_id, stale_keys, k.eligible,
      lane.score_of(number.floor(core.created_at, 0), priority))
    return ok(string.format("%.14g", number.either(core.priority, 0)), written)
  end)
