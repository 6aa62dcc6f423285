-- Flows: their keys, their state and the search for a cycle in their graph.

local CLOSED = { cancelled = true, completed = true, failed = true }

-- How much of a graph one search may read, per direction.
local EXECUTIONS_SEARCHED = 1000
local EDGES_SEARCHED = 10000

-- `ff:flow:<tag>:<flow_id>`, the front of every key of a flow.
function flow.prefix(tag, flow_id)
  return "ff:flow:" .. tag .. ":" .. flow_id
end

-- The same, cut out of the key of the flow's core.
function flow.prefix_of(core_key)
  return core_key:sub(1, -6)
end

-- The refusal of a key that is not the core of the flow, else nil.
function flow.misnamed(core_key, flow_id)
  if core_key ~= flow.prefix(text.tag(core_key), flow_id) .. ":core" then
    return err("invalid_input", "flow_core is not the key of flow_id")
  end
  return nil
end

-- The flow id and the child id inside `<prefix>:edgegroup:<eid>`, nil when it has another form.
function flow.parts_of_group(group_key)
  if not text.set(group_key) then
    return nil
  end
  return group_key:match("^ff:flow:%b{}:(.-):edgegroup:(.+)$")
end

-- Whether a flow accepts no further members, edges and runs.
function flow.closed(core)
  return CLOSED[core.public_flow_state] == true
end

-- The record of a flow that still accepts members, edges and a cancel, or nil and a refusal.
function flow.changeable(core_key)
  local core = record.read(core_key)
  if not core then
    return nil, err("flow_not_found")
  end
  if flow.closed(core) then
    return nil, err("flow_already_terminal")
  end
  return core
end

-- The record of a new flow; `nodes` and `edges` = how many it starts with, none unless given.
function flow.open(core_key, flow_id, flow_kind, namespace, now, nodes, edges)
  nodes, edges = nodes or 0, edges or 0
  record.write(core_key, {
    "flow_id", flow_id, "flow_kind", flow_kind, "namespace", namespace,
    "graph_revision", nodes + edges, "node_count", nodes, "edge_count", edges,
    "public_flow_state", "open", "created_at", now, "last_mutation_at", now,
  })
end

-- The record of a new edge; its ten fields are all that strict readers accept.
function flow.write_edge(edge_key, flow_id, edge, created_at)
  call("HSET", edge_key,
    "edge_id", edge.edge_id,
    "flow_id", flow_id,
    "upstream_execution_id", edge.upstream_eid,
    "downstream_execution_id", edge.downstream_eid,
    "dependency_kind", edge.dependency_kind or "success_only",
    "satisfaction_condition", "all_required",
    "data_passing_ref", edge.data_passing_ref or "",
    "edge_state", "pending",
    "created_at", created_at,
    "created_by", "engine")
end

local function walk(prefix, start, adjacency, far_end)
  return {
    seen = { [start] = true },
    count = 1,
    queue = { start },
    head = 1,
    edges_left = EDGES_SEARCHED,
    adjacency = prefix .. ":" .. adjacency .. ":",
    edges = prefix .. ":edge:",
    far_end = far_end,
  }
end

-- Whether everything on a side was visited, with all its edges.
local function exhausted(side)
  return side.head > #side.queue and side.edges_left >= 0
end

-- Whether a side has read as much as it may.
local function spent(side)
  return side.count > EXECUTIONS_SEARCHED or side.edges_left <= 0
end

-- Visits the neighbours of the next execution of `side`. Answers whether it met the other side.
local function step(side, other)
  local id = side.queue[side.head]
  side.head = side.head + 1
  local edges = call("SMEMBERS", side.adjacency .. id)
  for i = 1, math.min(#edges, side.edges_left) do
    local neighbour = call("HGET", side.edges .. edges[i], side.far_end)
    if neighbour and other.seen[neighbour] then
      return true
    end
    if neighbour and not side.seen[neighbour] then
      side.seen[neighbour] = true
      side.count = side.count + 1
      side.queue[#side.queue + 1] = neighbour
    end
  end
  side.edges_left = side.edges_left - #edges
  return false
end

-- Whether an edge from `upstream` to `downstream` would close a cycle. The search goes forward from
-- the one and backward from the other, always on the side where fewer executions wait, so that it
-- ends early unless both have many neighbours; a graph too large to search counts as a cycle.
function flow.closes_cycle(prefix, upstream, downstream)
  local forward = walk(prefix, downstream, "out", "downstream_execution_id")
  local backward = walk(prefix, upstream, "in", "upstream_execution_id")
  while not exhausted(forward) and not exhausted(backward) do
    local ahead, behind = #forward.queue - forward.head, #backward.queue - backward.head
    local side, other = forward, backward
    if spent(forward) or (behind < ahead and not spent(backward)) then
      side, other = backward, forward
    end
    if spent(side) or step(side, other) then
      return true
    end
  end
  return false
end
