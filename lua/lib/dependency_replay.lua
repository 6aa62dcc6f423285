-- Dependencies of a child that is replayed: edges that had failed wait for their upstreams again.

-- The edges of a child with their dependency keys, by edge id: those the caller lists (edge ids
-- from the third argument on, keys from the eighth) and those ever applied to the child.
local function edges_of(front, keys, args)
  local deps, edges = {}, {}
  for i = 3, #args do
    deps[args[i]] = text.either(keys[i + 5], front .. ":dep:" .. args[i])
  end
  for _, edge_id in ipairs(record.members(front .. ":deps:all_edges")) do
    deps[edge_id] = deps[edge_id] or front .. ":dep:" .. edge_id
  end
  for edge_id in pairs(deps) do
    edges[#edges + 1] = edge_id
  end
  table.sort(edges)
  return edges, deps
end

-- What a replay does to the dependencies of a child: a plan for `dependency.rearm` whose `open`
-- says how many edges the child waits for, or nil and a refusal.
function dependency.rearming(k, core, keys, args)
  local flow_id = dependency.flow_of(k.exec_core, core)
  if not flow_id then
    return { open = 0, rearmed = {}, group = {}, met = true }
  end
  local tag, front = text.tag(k.exec_core), k.exec_core:sub(1, -6)
  local group, group_key = edge_group.of_child(k.exec_core, core)
  local waiting_room = lane.index(tag, lane.of(core), "blocked:dependencies")
  local plan = {
    open = 0, rearmed = {}, group = {}, group_key = group_key,
    met = edge_group.counted(group) and group.group_state == "satisfied",
    meta = text.either(k.deps_meta, front .. ":deps:meta"),
    unresolved = text.either(k.unresolved, front .. ":deps:unresolved"),
    blocked = text.set(core.lane_id) and waiting_room or text.either(k.blocked, waiting_room),
    always = core.terminal_outcome == "skipped",
    pending_groups = lane.partition_index(tag, "pending_cancel_groups"),
    tuple = flow_id .. "|" .. text.present(core.execution_id, ""),
  }
  local refused = guard.any_mismatch({
    { plan.meta, "hash" }, { plan.unresolved, "set" }, { plan.blocked, "zset" },
    { plan.pending_groups, "set" },
  })
  if refused or plan.met then
    return plan, refused
  end
  local edges, deps = edges_of(front, keys, args)
  local repeated = 0
  for _, edge_id in ipairs(edges) do
    local dep = record.fields(deps[edge_id], "state", "repeats_upstream", "upstream_execution_id")
    if dep.state == "impossible" then
      plan.rearmed[#plan.rearmed + 1] = {
        id = edge_id, key = deps[edge_id],
        outlived = dependency.ended_run(tag, dep.upstream_execution_id),
      }
      repeated = repeated + (dep.repeats_upstream == "1" and 1 or 0)
    end
    if dep.state and dep.state ~= "satisfied" then
      plan.open = plan.open + 1
    end
  end
  if group and #plan.rearmed > 0 then
    local met
    plan.group, met = edge_group.rearm(group, #plan.rearmed, repeated)
    plan.open = met and 0 or plan.open
  end
  return plan
end

-- Which run of an upstream has ended, as the number of replays before it; empty while it runs.
function dependency.ended_run(tag, upstream_eid)
  local core_key = dependency.front(tag, text.present(upstream_eid, "")) .. ":core"
  if record.peek(core_key, "lifecycle_phase") ~= "terminal" then
    return ""
  end
  return number.digits(number.floor(record.peek(core_key, "replay_count"), 0))
end

-- Carries the plan out. `outlived_run` distinguishes an earlier end of the upstream from a later
-- one, independently of clocks.
function dependency.rearm(plan, now)
  if plan.met or (plan.open == 0 and #plan.rearmed == 0 and not plan.always) then
    return
  end
  for _, edge in ipairs(plan.rearmed) do
    record.write(edge.key,
      { "state", "unsatisfied", "last_resolved_at", "", "rearmed_at", now,
        "outlived_run", edge.outlived })
    call("SADD", plan.unresolved, edge.id)
  end
  record.write(plan.meta, {
    "unsatisfied_required_count", plan.open, "impossible_required_count", 0,
    "last_dependency_update_at", now,
  })
  record.write(plan.group_key, plan.group)
  if #plan.group > 0 then
    -- The child needs the siblings again that its failed group wanted cancelled.
    edge_group.drain(plan.pending_groups, plan.group_key, plan.tuple)
  end
end
