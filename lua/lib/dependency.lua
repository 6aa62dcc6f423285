-- Dependencies as the child sees them: an edge is applied to it, later resolved by the end of its
-- upstream, and the verdict then releases the child or skips it.
--
--   unsatisfied ──success──▶ satisfied
--        ▲  └─────other────▶ impossible
--        └──────replay───────────┘

dependency.RESOLVED = { satisfied = true, impossible = true }

dependency.OUTCOMES = {
  success = true, failed = true, cancelled = true, expired = true, skipped = true,
}

-- States of an attempt that is open.
dependency.RUNNING = { running_attempt = true, attempt_interrupted = true }

-- `ff:exec:<tag>:<eid>`, the front of every key of an execution.
function dependency.front(tag, execution_id)
  return "ff:exec:" .. tag .. ":" .. execution_id
end

-- The flow under which a child has its dependencies, nil if it has none. A child that is not a
-- member may have dependencies too: their record names the flow.
function dependency.flow_of(core_key, core)
  local flow_id = text.set(core.flow_id) and core.flow_id
    or record.peek(core_key:sub(1, -6) .. ":deps:meta", "flow_id")
  return text.set(flow_id) and flow_id or nil
end

-- The outcome of an execution that ended, nil while it runs or if it does not exist.
function dependency.outcome_of(core)
  if core and core.lifecycle_phase == "terminal" and dependency.OUTCOMES[core.terminal_outcome] then
    return core.terminal_outcome
  end
  return nil
end

-- The lane indexes that a child may move between, by the names of ff_resolve_dependency.
function dependency.lanes(tag, lane_id)
  return {
    eligible = lane.index(tag, lane_id, "eligible"),
    terminal = lane.index(tag, lane_id, "terminal"),
    blocked = lane.index(tag, lane_id, "blocked:dependencies"),
  }
end

-- The keys that resolving `edge_id` for this child may touch, by the names of
-- ff_resolve_dependency, but for those that follow from the child's record. `flow_front` = the
-- front of the keys of the flow under which the edge was applied.
function dependency.keys(tag, flow_front, child_eid, edge_id)
  local front = dependency.front(tag, child_eid)
  return {
    exec_core = front .. ":core",
    deps_meta = front .. ":deps:meta",
    unresolved = front .. ":deps:unresolved",
    dep = front .. ":dep:" .. edge_id,
    edgegroup = flow_front .. ":edgegroup:" .. child_eid,
    payload = nil, upstream_result = nil, eligible = nil, terminal = nil, blocked = nil,
    attempt = nil, stream_meta = nil,
  }
end

-- Points the named lane keys at the child's own lane, as lane.locate does. The keys that the caller
-- passed instead are stored as k.stale_keys, to be cleaned too. Answers the refusal of a key of
-- another type.
function dependency.locate(k, core, names)
  local refused
  k.stale_keys, refused = lane.locate(k, core or {}, names)
  return refused
end

-- What one more dependency changes: the child's counters, its group, and whether it is held back.
-- Answers a plan for `dependency.apply`, or nil and a refusal. Needs k.exec_core, deps_meta,
-- edgegroup (or nil).
function dependency.applying(k, core, a)
  local meta = record.fields(k.deps_meta, "unsatisfied_required_count")
  local plan = { open = number.floor(meta.unsatisfied_required_count, 0) + 1, group = {} }
  local decided = false
  if text.set(k.edgegroup) then
    local group, refused = edge_group.read(k.edgegroup, a.upstream_eid)
    if refused then
      return nil, refused
    end
    plan.founds_group = group == nil
    local repeats
    plan.group, repeats = edge_group.grow(group, { a.upstream_eid })
    plan.repeats = repeats[1]
    decided = edge_group.counted(group) and group.group_state == "satisfied"
  end
  plan.holds = core.lifecycle_phase == "runnable" and core.terminal_outcome == "none"
    and not decided
  plan.homes = plan.holds and lane.homes(k.exec_core, core) or {}
  return plan, guard.any_other(plan.homes, "zset")
end

-- Holds that outlive the wait for dependencies, with the reason that each shows.
local PAUSES = {
  blocked_by_operator = "paused_by_operator", blocked_by_lane_state = "paused_by_policy",
}

-- What a child shows that waits for `open` edges, the last of which is `edge_id`.
function dependency.detail(open, edge_id)
  return number.digits(open) .. " dep(s) unresolved incl " .. edge_id
end

-- Blocks the child. A delay stays on its record and a pause is stored there; both apply again when
-- the child is released.
local function hold(k, core, a, plan)
  local more = { "last_transition_at", a.now_ms, "last_mutation_at", a.now_ms }
  if PAUSES[core.eligibility_state or ""] then
    text.append(more, { "held_as", core.eligibility_state,
      "held_detail", text.present(core.blocking_detail, "") })
  end
  local vector = state.waiting_children(dependency.detail(plan.open, a.edge_id),
    text.present(core.attempt_state, "pending_first_attempt"))
  vector.ownership_state = text.present(core.ownership_state, "unowned")
  state.put(k.exec_core, vector, more)
  lane.move(text.present(core.execution_id, ""),
    text.append({ k.eligible }, plan.homes, k.stale_keys or {}), k.blocked,
    number.floor(core.created_at, 0))
end

-- The child's record of an edge { edge_id, upstream_eid, dependency_kind, data_passing_ref };
-- `repeats` = whether an earlier edge comes from the same upstream.
function dependency.write(dep_key, flow_id, child_eid, edge, repeats)
  call("HSET", dep_key,
    "edge_id", edge.edge_id,
    "flow_id", flow_id,
    "upstream_execution_id", edge.upstream_eid,
    "downstream_execution_id", child_eid,
    "dependency_kind", edge.dependency_kind or "success_only",
    "state", "unsatisfied",
    "data_passing_ref", edge.data_passing_ref or "",
    "last_resolved_at", "")
  if repeats then
    call("HSET", dep_key, "repeats_upstream", "1")
  end
end

-- Records the dependency `a` (flow_id, edge_id, upstream_eid, graph_revision, dependency_kind,
-- data_passing_ref, now_ms) on the child and holds it back if the plan says so.
function dependency.apply(k, core, a, plan)
  dependency.write(k.dep, a.flow_id, text.present(core.execution_id, ""), a, plan.repeats)
  call("SADD", k.unresolved, a.edge_id)
  call("SADD", k.all_edges, a.edge_id)
  record.write(k.deps_meta, {
    "unsatisfied_required_count", plan.open, "flow_id", a.flow_id,
    "last_flow_graph_revision", text.present(a.graph_revision, ""),
    "last_dependency_update_at", a.now_ms,
  })
  record.write(text.present(k.edgegroup, ""), plan.group)
  if plan.holds then
    hold(k, core, a, plan)
  end
end

-- Where the flow has to record the group that a first dependency creates, as flow.note_of_group
-- does; also nil if there is no flow or no new group.
function dependency.noting_group(k, a, plan)
  local flow_core = flow.prefix(text.tag(k.exec_core), a.flow_id) .. ":core"
  if not plan.founds_group or call("EXISTS", flow_core) == 0 then
    return nil
  end
  return flow.note_of_group(flow_core, k.edgegroup)
end

-- Where to record that a child waits for its upstream. An edge that the flow does not list is known
-- to the child only, and the upstream must not be purged before the edge is resolved. Nil if there
-- is no need, or no upstream; or nil and the refusal of a key of another type.
function dependency.noting(core_key, a)
  local tag = text.tag(core_key)
  local front = dependency.front(tag, a.upstream_eid)
  if call("EXISTS", flow.prefix(tag, a.flow_id) .. ":edge:" .. a.edge_id) == 1
    or call("EXISTS", front .. ":core") == 0 then
    return nil
  end
  local refused = guard.mismatch(front .. ":deps:awaited", "hash")
  return not refused and front .. ":deps:awaited" or nil, refused
end

-- Publishes the end of an upstream again if an edge from it is applied after its end, so that the
-- edge is resolved without waiting for a scan. A push is a hint; nothing here can fail.
function dependency.announce_if_ended(core_key, a)
  local upstream = dependency.front(text.tag(core_key), a.upstream_eid) .. ":core"
  local outcome = dependency.outcome_of({
    lifecycle_phase = record.peek(upstream, "lifecycle_phase"),
    terminal_outcome = record.peek(upstream, "terminal_outcome"),
  })
  if outcome then
    completion.announce(a.upstream_eid, a.flow_id, outcome)
  end
end

-- What the dependencies of a runnable child allow, or nil and the refusal of a key of another type.
-- Needs k.exec_core, deps_meta.
function dependency.eligibility(k, core)
  if text.set(core.unsealed) then
    return "blocked_by_dependencies"
  end
  local group = edge_group.of_child(k.exec_core, core)
  if edge_group.counted(group) and edge_group.fired(group) then
    return group.group_state == "impossible" and "impossible" or "eligible"
  end
  local counts = try("HMGET", k.deps_meta, "impossible_required_count",
    "unsatisfied_required_count")
  local refused = guard.clash(k.deps_meta, "hash") or guard.refusal(counts)
  if refused then
    return nil, guard.named(refused, k.deps_meta)
  end
  if number.either(counts[1], 0) > 0 then
    return "impossible"
  end
  if number.either(counts[2], 0) > 0 then
    return "blocked_by_dependencies"
  end
  return "eligible"
end

local function own_lane(k, core, name)
  return lane.index(text.tag(k.exec_core), lane.of(core), name)
end

-- The row with the phase and the ownership of the record; a copy if they differ, since rows are
-- shared.
local function keeping(vector, core)
  local phase = text.either(core.lifecycle_phase, "runnable")
  local ownership = text.either(core.ownership_state, "unowned")
  if phase == vector.lifecycle_phase and ownership == vector.ownership_state then
    return vector
  end
  local own = {}
  for name, value in pairs(vector) do
    own[name] = value
  end
  own.lifecycle_phase, own.ownership_state = phase, ownership
  return own
end

-- Where a child goes once nothing blocks it: a running delay and a pause still apply after its
-- dependencies are met. Needs k.exec_core, blocked, eligible. Answers a plan for
-- `dependency.release`, or nil and a refusal.
function dependency.releasing(k, core, now)
  local attempt_state = text.either(core.attempt_state, "none")
  if attempt_state == "none" then
    attempt_state = "pending_first_attempt"
  end
  local plan = {
    vector = state.eligible(attempt_state), to = k.eligible, score = lane.eligible_score(core),
    more = lane.NONE,
  }
  local delay_until = number.either(core.delay_until, 0)
  local pause = PAUSES[core.held_as or ""]
  if pause then
    local detail = record.peek(k.exec_core, "held_detail")
    plan.vector = state.held(core.held_as, pause, text.present(detail, ""), attempt_state)
    plan.to, plan.score = own_lane(k, core, "blocked:operator"), number.finite(now) or 0
    plan.more = { "held_as", "", "held_detail", "" }
  elseif delay_until > number.now() then
    local reason = attempt_state == "pending_retry_attempt" and "waiting_for_retry_backoff"
      or "waiting_for_delay"
    plan.vector = state.delayed(reason, "delayed until " .. core.delay_until, attempt_state)
    plan.to, plan.score = own_lane(k, core, "delayed"), delay_until
  end
  plan.vector = keeping(plan.vector, core)
  return plan, guard.mismatch(plan.to, "zset")
end

-- Releases a child. A call that releases many collects their moves in `moves`.
function dependency.release(k, id, plan, now, moves)
  state.write(k.exec_core, plan.vector, "last_transition_at", now, "last_mutation_at", now,
    unpack(plan.more))
  if moves then
    lane.collect(moves, id, k.blocked, plan.to, plan.score)
  else
    lane.move(id, text.append({ k.blocked }, k.stale_keys or {}), plan.to, plan.score)
  end
end
