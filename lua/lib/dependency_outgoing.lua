-- The outgoing edges of an execution that has ended.

-- Whether this is the same end of the upstream that had failed the edge before it was re-armed.
local function outlived(core, dep)
  local run = dep and dep.outlived_run
  return core.terminal_outcome ~= "success" and text.set(run)
    and run == number.digits(number.floor(core.replay_count, 0))
end

-- The child of an edge, and the flow under which it was applied; nil if it is unknown. `all` is
-- what the edges of the call have in common.
local function child_of(all, edge_id, only_child)
  local staged = all.edge_front
    and record.peek(all.edge_front .. edge_id, "downstream_execution_id")
  if text.set(staged) then
    return staged, all.core.flow_id, all.flow_front
  end
  if not text.set(only_child) then
    return nil
  end
  local front = dependency.front(all.tag, only_child)
  if record.peek(front .. ":dep:" .. edge_id, "upstream_execution_id") ~= all.id then
    return nil
  end
  local flow_id = text.present(record.peek(front .. ":deps:meta", "flow_id"), "")
  return only_child, flow_id, flow.prefix(all.tag, flow_id)
end

-- Answers the function that reads the record of a child and points `k` at its lane and at what it
-- may be passed.
local function child_reader(tag, upstream_result)
  local lanes = {}
  return function(k)
    local core, refused = dependency.child(k.exec_core)
    if core then
      local lane_id = lane.of(core)
      local own = lanes[lane_id] or dependency.lanes(tag, lane_id)
      lanes[lane_id] = own
      k.eligible, k.terminal, k.blocked = own.eligible, own.terminal, own.blocked
      k.payload, k.upstream_result = k.exec_core:sub(1, -5) .. "payload", upstream_result
    end
    return core, refused
  end
end

-- What the edges of one upstream have in common. `core` = how it ended: flow_id, terminal_outcome,
-- replay_count. The moves of the children are collected in `moves`, for lane.carry_out.
function dependency.outgoing(tag, id, core, now)
  local flow_front = text.set(core.flow_id) and flow.prefix(tag, core.flow_id)
  return {
    tag = tag, id = id, core = core, now = number.digits(now),
    flow_front = flow_front, edge_front = flow_front and flow_front .. ":edge:",
    child = child_reader(tag, dependency.front(tag, id) .. ":result"), moves = {}, lanes = {},
    all_of_only = false,
  }
end

-- Resolves one edge: `resolved`, `before` or `left`, and what happened to the child. An edge of a
-- group that counts is left where `all` says so.
function dependency.resolve_edge(all, edge_id, only_child)
  local core = all.core
  local child, flow_id, flow_front = child_of(all, edge_id, only_child)
  if not child then
    return "left"
  end
  if core.terminal_outcome == "success" and flow_front == all.flow_front then
    local done, releases = dependency.resolve_first(all, edge_id, child)
    if done then return "resolved", releases and "released" or nil, child end
  end
  local k = dependency.keys(all.tag, flow_front, child, edge_id)
  local found = dependency.records(k)
  if not found or outlived(core, found.dep)
    or all.all_of_only and edge_group.counted(found.group) then
    return "left"
  end
  local reply, effect = dependency.resolve(k, {
    edge_id = edge_id, upstream_outcome = core.terminal_outcome, now_ms = all.now,
    flow_id = flow_id, downstream_eid = child,
  }, found, all.child, all.moves)
  if reply.err or reply[1] == 0 then
    return "left"
  end
  return reply[3] == "already_resolved" and "before" or "resolved", effect, child
end

-- Resolves the edges of an execution that has just succeeded, if they are few and lead to children
-- that wait for all of theirs. All others are left to the engine, which is told of every end.
-- Answers the children that this made eligible and the moves to carry out, or nil.
local FEW = 8
function dependency.resolve_few(tag, id, flow_id, now)
  local outgoing = flow.prefix(tag, flow_id) .. ":out:" .. id
  local count = try("SCARD", outgoing)
  if type(count) ~= "number" or count == 0 or count > FEW then
    return nil
  end
  local all = dependency.outgoing(tag, id, { flow_id = flow_id, terminal_outcome = "success" }, now)
  all.all_of_only = true
  local edges, released = call("SMEMBERS", outgoing), {}
  for i = 1, #edges do
    local _, effect, child = dependency.resolve_edge(all, edges[i])
    if effect == "released" then
      released[#released + 1] = child
    end
  end
  return released, all.moves
end
