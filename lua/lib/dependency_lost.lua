-- Upstreams whose record is gone for good: deleted by hand, or evicted. The engine never deletes the
-- record of an upstream that a child waits for.

-- Begins the failure_reason of a child that was skipped for that; the id of the upstream follows.
dependency.LOST = "upstream_lost:"

-- Whether an execution without a record once had one: it is a member of the flow of the edge, or
-- lists the edge, or is listed in its partition. A record is written before, or with, any of these.
local function had_record(tag, id, flow_id, edge_id)
  local prefix = flow.prefix(tag, text.present(flow_id, ""))
  return try("SISMEMBER", prefix .. ":members", id) == 1
    or record.peek(dependency.front(tag, id) .. ":deps:awaited", edge_id) ~= nil
    or try("SISMEMBER", lane.partition_index(tag, "all_executions"), id) == 1
end

-- How an execution ended that has no record: its last attempt says whether it succeeded.
local function last_outcome(tag, id)
  local attempts = try("ZRANGE", dependency.front(tag, id) .. ":attempts", -1, -1)
  local index = type(attempts) == "table" and not attempts.err and attempts[1]
  local ended = index and record.peek(attempt.key(tag, id, index), "attempt_state")
  return ended == "ended_success" and "success" or "failed"
end

-- What stands in for the record of the upstream `execution_id` of the edge `only_edge` to
-- `only_child` if it is lost; nil if it is not, or if that is unknown.
function dependency.lost(core_key, a)
  if not text.set(a.only_edge) or not text.set(a.only_child) then
    return nil
  end
  local tag, id = text.tag(core_key), a.execution_id
  local dep = dependency.front(tag, a.only_child) .. ":dep:" .. a.only_edge
  if record.peek(dep, "upstream_execution_id") ~= id
    or not had_record(tag, id, record.peek(dep, "flow_id"), a.only_edge) then
    return nil
  end
  return { lifecycle_phase = "terminal", terminal_outcome = last_outcome(tag, id), lost = id }
end
