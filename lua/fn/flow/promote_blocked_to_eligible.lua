-- Releases a child that is still blocked although all its dependencies are met. The child is moved
-- within the lane of its record, whatever keys the caller passed.
-- Keys: exec_core (hash), blocked (zset), eligible (zset), deps_meta (hash), unresolved (set)
-- Arguments: execution_id, now_ms (the caller's clock)
-- Replies: OK
-- Errors: execution_not_found, not_runnable, not_blocked_by_deps, terminal, deps_not_satisfied,
--   invalid_input
-- Bound: 19
-- Keeps: OneHome, NoRunBeforeParents, RepeatIsHarmless
define("ff_promote_blocked_to_eligible",
  { "exec_core!=hash", "blocked!:zset", "eligible!:zset", "deps_meta!=hash", "unresolved!=set" },
  { "execution_id!", "now_ms" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then
      return err("execution_not_found")
    end
    if core.lifecycle_phase ~= "runnable" then
      return err("not_runnable")
    end
    if core.eligibility_state ~= "blocked_by_dependencies" then
      return err("not_blocked_by_deps")
    end
    if core.terminal_outcome ~= "none" then
      return err("terminal")
    end
    local unsatisfied = number.floor(call("HGET", k.deps_meta, "unsatisfied_required_count"), 0)
    local unresolved = call("SCARD", k.unresolved)
    local group = edge_group.of_child(k.exec_core, core)
    local met = edge_group.counted(group) and group.group_state == "satisfied"
    if text.set(core.unsealed) or (not met and (unsatisfied > 0 or unresolved > 0)) then
      return err("deps_not_satisfied", unsatisfied, unresolved)
    end
    local _, refused = number.clock(a)
    if refused then
      return refused
    end
    refused = dependency.locate(k, core, { "blocked", "eligible" })
    if refused then
      return refused
    end
    local plan
    plan, refused = dependency.releasing(k, core, a.now_ms)
    if refused then
      return refused
    end
    -- write; nothing below can fail
    dependency.release(k, a.execution_id, plan, a.now_ms)
    return ok()
  end)
