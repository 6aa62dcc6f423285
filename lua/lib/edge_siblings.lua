-- The siblings that a fired group no longer needs: upstreams that still run and that no other child
-- waits for. Whoever cannot be asked about in bounded work counts as needed elsewhere and runs on.

-- Most edges of one sibling, and most fields of other children and their edges that one call reads:
-- with more than that a sibling is taken for needed. Those with the fewest edges are asked about
-- first, so that a few busy ones leave enough for everybody else.
local EDGES_MAX = 64
local READS_MAX = 16384

-- How many edges to a child are learnt at once, and how many of them weigh as much as a read.
local EDGES_LEARNT = 4096
local EDGES_PER_READ = 32

-- After so many siblings a call that resolves many edges leaves the rest for another: there are reads
-- enough for each of them.
local SIBLINGS_MAX = 10000

-- What the running call has learnt, nil when nobody asked yet: `children` whether a child may wait
-- for anybody, `met_before` how often it was met, `outgoing` the edges of an upstream, `leads_to` the
-- child of an edge, `met` the edges that wait for nothing, `waited_by` a child that was found waiting
-- for an upstream. None of this changes while the call runs, but that a child ends its wait: see
-- edge_group.moved_on.
local learnt

-- Forgets what the call before has learnt.
function edge_group.begin()
  learnt = nil
end

local function read(key, field)
  learnt.reads = learnt.reads + 1
  return record.peek(key, field)
end

-- A child was resolved: it may have ended its wait.
function edge_group.moved_on(child_eid)
  if learnt and learnt.children[child_eid] then
    learnt.children[child_eid] = nil
  end
end

-- Whether the running call has looked at so many siblings that it should not begin with more.
function edge_group.is_weary()
  return learnt ~= nil and learnt.siblings >= SIBLINGS_MAX
end

-- The members of a set in byte order; nil when there are more than `most`, or nobody can tell.
local function members(key, most)
  local size = try("SCARD", key)
  if type(size) ~= "number" or size > most then
    return nil
  end
  local found = size > 0 and record.members(key) or {}
  return #found == size and found or nil
end

-- The outgoing edges of an upstream in byte order, false when it has too many to ask about.
local function outgoing(prefix, upstream_eid)
  local edges = learnt.outgoing[upstream_eid]
  if edges == nil then
    edges = members(prefix .. ":out:" .. upstream_eid, EDGES_MAX) or false
    learnt.outgoing[upstream_eid] = edges
  end
  return edges
end

-- Whether a child may still wait for anybody, by its record and its group.
local function waits(tag, prefix, child_eid)
  local known = learnt.children[child_eid]
  if known == nil then
    local phase = read("ff:exec:" .. tag .. ":" .. child_eid .. ":core", "lifecycle_phase")
    known = text.set(phase) and phase ~= "terminal"
      and read(prefix .. ":edgegroup:" .. child_eid, "group_state") ~= "satisfied"
    learnt.children[child_eid] = known
  end
  return known
end

-- Learns at once which edges lead to a child: many siblings often share their children.
local function learn_edges_to(prefix, child_eid)
  local edges = members(prefix .. ":in:" .. child_eid, EDGES_LEARNT) or {}
  learnt.reads = learnt.reads + 2 + math.floor(#edges / EDGES_PER_READ)
  for _, edge_id in ipairs(edges) do
    learnt.leads_to[edge_id] = child_eid
  end
end

-- The child of an edge, empty when nobody knows.
local function child_of(prefix, edge_id)
  local child = learnt.leads_to[edge_id]
  if child == nil then
    child = read(prefix .. ":edge:" .. edge_id, "downstream_execution_id") or ""
    learnt.leads_to[edge_id] = child
    learnt.met_before[child] = (learnt.met_before[child] or 0) + 1
    if learnt.met_before[child] == 2 and child ~= "" then
      learn_edges_to(prefix, child)
    end
  end
  return child
end

-- The child that an edge holds back, nil when it holds back none but `child_eid`.
local function holds_back(tag, prefix, edge_id, child_eid)
  local other = child_of(prefix, edge_id)
  if other == "" or other == child_eid or not waits(tag, prefix, other) then
    return nil
  end
  local dep = "ff:exec:" .. tag .. ":" .. other .. ":dep:" .. edge_id
  learnt.met[edge_id] = dependency.RESOLVED[read(dep, "state") or ""]
  return not learnt.met[edge_id] and other or nil
end

-- Whether some child other than `child_eid` still waits for this upstream.
local function needed_elsewhere(tag, prefix, upstream_eid, child_eid)
  local before = learnt.waited_by[upstream_eid]
  if before and before ~= child_eid and learnt.children[before] then
    return true
  end
  for _, edge_id in ipairs(outgoing(prefix, upstream_eid)) do
    if learnt.reads >= READS_MAX then
      return true
    end
    local other = not learnt.met[edge_id] and holds_back(tag, prefix, edge_id, child_eid)
    if other then
      learnt.waited_by[upstream_eid] = other
      return true
    end
  end
  return false
end

-- The upstreams of a child that still run, each once, those with the fewest edges first; none that
-- has too many to ask about.
local function candidates(tag, prefix, incoming_key, child_eid)
  local found, seen, incoming = {}, {}, record.members(incoming_key)
  learnt.siblings = learnt.siblings + #incoming
  for _, edge_id in ipairs(incoming) do
    learnt.leads_to[edge_id] = child_eid
    local sibling = record.peek(prefix .. ":edge:" .. edge_id, "upstream_execution_id")
    if text.set(sibling) and not seen[sibling] then
      seen[sibling] = true
      local phase = record.peek("ff:exec:" .. tag .. ":" .. sibling .. ":core", "lifecycle_phase")
      local edges = text.set(phase) and phase ~= "terminal" and outgoing(prefix, sibling)
      if edges then
        found[#found + 1] = { id = sibling, edges = #edges, place = #found + 1 }
      end
    end
  end
  table.sort(found, function(a, b)
    return a.edges < b.edges or (a.edges == b.edges and a.place < b.place)
  end)
  return found
end

-- The upstreams that a fired group no longer needs: not terminal, each once, and none that
-- another child still waits for.
function edge_group.idle_siblings(tag, flow_id, incoming_key, child_eid)
  learnt = learnt or {
    reads = 0, siblings = 0, children = {}, met_before = {}, outgoing = {}, leads_to = {},
    met = {}, waited_by = {},
  }
  local prefix, idle = flow.prefix(tag, flow_id), {}
  for _, sibling in ipairs(candidates(tag, prefix, incoming_key, child_eid)) do
    if not needed_elsewhere(tag, prefix, sibling.id, child_eid) then
      idle[#idle + 1] = sibling
    end
  end
  table.sort(idle, function(a, b) return a.place < b.place end)
  for i = 1, #idle do
    idle[i] = idle[i].id
  end
  return idle
end
