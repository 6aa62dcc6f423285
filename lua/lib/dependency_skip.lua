-- Ending a child whose dependencies cannot be met, whatever it was doing.

-- Everything a child leaves behind when it is skipped, all keys checked: the plan for
-- `dependency.skip`, or nil and a refusal. A child may be skipped in any phase, so its lease or
-- its suspension ends with it.
function dependency.skipping(k, core)
  local tag, id = text.tag(k.exec_core), text.present(core.execution_id, "")
  local front = k.exec_core:sub(1, -6)
  local home = lane.INDEX_OF_PHASE[core.lifecycle_phase]
  local plan = {
    id = id,
    core = core,
    homes = home and { lane.index(tag, lane.of(core), home) } or lane.homes(k.exec_core, core),
    deadline = lane.partition_index(tag, "execution_deadline"),
  }
  local checks = { { plan.deadline, "zset" } }
  if core.lifecycle_phase == "active" then
    if text.set(core.current_lane) and core.current_lane ~= lane.of(core) then
      -- FlowFabric notes a claim under the lane of the worker that made it.
      text.append(plan.homes, { lane.index(tag, core.current_lane, "active") })
    end
    plan.lease = {
      exec_core = k.exec_core,
      lease_current = front .. ":lease:current",
      lease_history = front .. ":lease:history",
      lease_expiry = lane.partition_index(tag, "lease_expiry"),
      attempt_timeout = lane.partition_index(tag, "attempt_timeout"),
      worker_leases = lane.worker_leases(tag, core.current_worker_instance_id),
    }
    text.append(checks, {
      { plan.lease.lease_history, "stream" }, { plan.lease.lease_expiry, "zset" },
      { plan.lease.attempt_timeout, "zset" }, { plan.lease.worker_leases, "set" },
    })
  end
  local refused = guard.any_other(plan.homes, "zset") or guard.any_mismatch(checks)
  if not refused and core.lifecycle_phase == "suspended" then
    local key = front .. ":suspension:current"
    plan.timeout = lane.partition_index(tag, "suspension_timeout")
    refused = guard.any_mismatch({ { plan.timeout, "zset" }, { key, "hash" } })
    if not refused then
      plan.suspension, refused = suspension.closing(key, {})
    end
  end
  if refused then
    return nil, refused
  end
  return plan
end

-- Ends a child whose dependencies cannot be met, and announces that.
function dependency.skip(k, plan, now)
  local core, id = plan.core, plan.id
  local attempt_state = core.attempt_state == "" and "" or "none"
  if dependency.RUNNING[core.attempt_state] then
    attempt_state = "attempt_terminal"
    attempt.finish(k.attempt, "ended_cancelled", now,
      { "failure_reason", "dependency_impossible" })
    stream.close(k.stream_meta, "dependency_impossible", number.finite(now))
  end
  local more = { "completed_at", now, "last_transition_at", now, "last_mutation_at", now }
  if plan.lease then
    lease.history(plan.lease.lease_history, "released", lease.EVENT.released,
      lease.current(core, now, "dependency_impossible"))
    lease.release(plan.lease, id, core)
    push.lost(core, id)
    text.append(more, lease.RELEASED)
  end
  if plan.suspension then
    suspension.close(plan.suspension, { reason = "dependency_impossible" }, number.finite(now))
    call("ZREM", plan.timeout, id)
    text.append(more, { "current_suspension_id", "", "current_waitpoint_id", "" })
  end
  state.put(k.exec_core, state.terminal("skipped", attempt_state), more)
  lane.move(id, text.append({ k.blocked, k.eligible }, plan.homes, k.stale_keys or {}), k.terminal,
    number.finite(now))
  call("ZREM", plan.deadline, id)
  completion.announce(core.execution_id, core.flow_id, "skipped")
end
