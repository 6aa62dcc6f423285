-- Adds a member to a flow and writes the flow id to the member's record. An execution belongs to at
-- most one flow.
-- Keys: flow_core (hash), members (set of execution ids), flow_index (set of flow ids),
--   exec_core (hash)
-- Arguments: flow_id, execution_id, now_ms (ignored)
-- Replies: OK, ALREADY_SATISFIED
-- Errors: invalid_input, flow_not_found, flow_already_terminal, execution_not_found,
--   already_member_of_different_flow:<flow_id>
-- Bound: 10
-- Keeps: RepeatIsHarmless, ErrorMeansUntouched
define("ff_add_execution_to_flow",
  { "flow_core!=hash", "members!=set", "flow_index!:set", "exec_core!=hash" },
  { "flow_id!", "execution_id!", "now_ms" },
  function(k, a)
    local core, refused = flow.changeable(k.flow_core)
    if not core then
      return refused
    end
    if call("EXISTS", k.exec_core) == 0 then
      return err("execution_not_found")
    end
    local owner = call("HGET", k.exec_core, "flow_id")
    if text.set(owner) and owner ~= a.flow_id then
      return err("already_member_of_different_flow:" .. owner)
    end
    local known = call("SISMEMBER", k.members, a.execution_id) == 1
    local nodes = number.floor(core.node_count, 0)
    local now = number.now()
    -- write; nothing below can fail
    call("SADD", k.flow_index, a.flow_id)
    call("HSET", k.exec_core, "flow_id", a.flow_id)
    if known then
      return already_satisfied(a.execution_id, nodes)
    end
    call("SADD", k.members, a.execution_id)
    record.write(k.flow_core, {
      "node_count", nodes + 1,
      "graph_revision", number.floor(core.graph_revision, 0) + 1,
      "last_mutation_at", now,
    })
    return ok(a.execution_id, nodes + 1)
  end)
