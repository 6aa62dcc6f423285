-- Records a dependency on the child and blocks it until the edge is resolved. A child that already
-- runs, or whose group is decided, is not blocked. The child is moved within the lane of its
-- record, whatever keys the caller passed. If the upstream has already ended, its end is published
-- again, so that the edge is resolved without waiting for a scan. If the flow does not list the
-- edge, the upstream's record lists it, so that the upstream is not purged before the edge is
-- resolved.
-- Keys: exec_core (hash), deps_meta (hash), unresolved (set of edge ids), dep (hash), eligible
--   (zset), blocked (zset), all_edges (set of edge ids), edgegroup (hash; unset for none)
-- Arguments: flow_id, edge_id, upstream_eid, graph_revision, dependency_kind (success_only unless
--   given), data_passing_ref, now_ms (the caller's clock)
-- Replies: OK, already_applied
-- Errors: execution_not_found, execution_already_in_flow, invalid_input
-- Bound: 43
-- Keeps: OneHome, GroupCounts, NoRunBeforeParents, RepeatIsHarmless
define("ff_apply_dependency_to_child",
  { "exec_core!=hash", "deps_meta!=hash", "unresolved!:set", "dep!:hash", "eligible!:zset",
    "blocked!:zset", "all_edges!:set", "edgegroup=hash" },
  { "flow_id!", "edge_id!", "upstream_eid!", "graph_revision", "dependency_kind",
    "data_passing_ref", "now_ms" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then
      return err("execution_not_found")
    end
    if text.set(core.flow_id) and core.flow_id ~= a.flow_id then
      return err("execution_already_in_flow")
    end
    if call("EXISTS", k.dep) == 1 then
      return ok("already_applied")
    end
    local _, refused = number.clock(a)
    if refused then return refused end
    refused = dependency.locate(k, core, { "blocked", "eligible" })
    if refused then return refused end
    local plan, noted, group_noted
    plan, refused = dependency.applying(k, core, a)
    if refused then return refused end
    group_noted, refused = dependency.noting_group(k, a, plan)
    if refused then return refused end
    noted, refused = dependency.noting(k.exec_core, a)
    if refused then return refused end
    -- write; nothing below can fail
    dependency.apply(k, core, a, plan)
    if group_noted then
      call("HSET", group_noted.key, group_noted.field, "1")
    end
    if noted then
      call("HSET", noted, a.edge_id, text.execution_of(k.exec_core))
    end
    dependency.announce_if_ended(k.exec_core, a)
    return ok(plan.open)
  end)
