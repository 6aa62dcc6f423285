-- Adds an edge to the graph of a flow if the graph revision is the one the caller has seen. The
-- child is blocked only by ff_apply_dependency_to_child.
-- Keys: flow_core (hash), members (set of execution ids), edge (hash), outgoing (set of edge ids),
--   incoming (set of edge ids), grant (untouched)
-- Arguments: flow_id, edge_id, upstream_eid, downstream_eid, dependency_kind (success_only unless
--   given), data_passing_ref, expected_graph_revision, now_ms (the caller's clock)
-- Replies: OK
-- Errors: self_referencing_edge, flow_not_found, flow_already_terminal, stale_graph_revision,
--   execution_not_in_flow, cycle_detected, dependency_already_exists, invalid_input
-- Bound: 22030
-- Keeps: ErrorMeansUntouched, BoundedWork
define("ff_stage_dependency_edge",
  { "flow_core!=hash", "members!=set", "edge!=hash", "outgoing!:set", "incoming!:set", "grant" },
  { "flow_id!", "edge_id!", "upstream_eid!", "downstream_eid!", "dependency_kind",
    "data_passing_ref", "expected_graph_revision", "now_ms" },
  function(k, a)
    if a.upstream_eid == a.downstream_eid then
      return err("self_referencing_edge")
    end
    local core, refused = flow.changeable(k.flow_core)
    if not core then
      return refused
    end
    if text.present(core.graph_revision, "0") ~= a.expected_graph_revision then
      return err("stale_graph_revision")
    end
    if call("SISMEMBER", k.members, a.upstream_eid) == 0
      or call("SISMEMBER", k.members, a.downstream_eid) == 0 then
      return err("execution_not_in_flow")
    end
    local prefix = flow.prefix_of(k.flow_core)
    if projection.is_purged(prefix, a.flow_id, a.upstream_eid)
      or projection.is_purged(prefix, a.flow_id, a.downstream_eid) then
      return err("execution_not_in_flow")
    end
    if flow.closes_cycle(prefix, a.upstream_eid, a.downstream_eid) then
      return err("cycle_detected")
    end
    if call("EXISTS", k.edge) == 1 then
      return err("dependency_already_exists")
    end
    local now
    now, refused = number.clock(a)
    if not now then
      return refused
    end
    -- write; nothing below can fail
    flow.write_edge(k.edge, a.flow_id, a, a.now_ms)
    call("SADD", k.outgoing, a.edge_id)
    call("SADD", k.incoming, a.edge_id)
    local revision = number.floor(core.graph_revision, 0) + 1
    -- The caller's clock never turns the record's own back.
    local mutated = number.either(core.last_mutation_at, 0) > now and core.last_mutation_at
      or a.now_ms
    record.write(k.flow_core, {
      "graph_revision", revision,
      "edge_count", number.floor(core.edge_count, 0) + 1,
      "last_mutation_at", mutated,
    })
    return ok(a.edge_id, revision)
  end)
