-- The siblings that a fired group no longer needs: upstreams that still run and that no other child
-- waits for. A sibling that cannot be checked within the limits counts as needed and keeps running.

-- The most edges of one sibling, and the most fields of other children and their edges, that one
-- call reads: a sibling beyond that counts as needed. Siblings with the fewest edges are checked
-- first, so that a few with many edges do not use up the reads.
local EDGES_MAX = 64
local READS_MAX = 16384

-- How many edges to a child are cached at once, and how many of them count as one read.
local EDGES_CACHED = 4096
local EDGES_PER_READ = 32

-- After this many siblings a call that resolves many edges leaves the rest to the next call, so
-- that there are enough reads for each sibling.
local SIBLINGS_MAX = 10000

-- `sibling_cache` (prelude.lua) is what the running call has read, nil before the first sibling:
-- `children` whether a child may wait for an upstream, `met_before` how often it was met,
-- `outgoing` the edges of an upstream, `leads_to` the child of an edge, `met` the edges that wait
-- for nothing, `waited_by` a child that was found waiting for an upstream. Nothing of this changes
-- during the call, except that a child stops waiting: see edge_group.child_changed.

local function read(key, field)
  sibling_cache.reads = sibling_cache.reads + 1
  return record.peek(key, field)
end

-- A child was resolved: it may have stopped waiting.
function edge_group.child_changed(child_eid)
  if sibling_cache and sibling_cache.children[child_eid] then
    sibling_cache.children[child_eid] = nil
  end
end

-- Whether the running call has looked at so many siblings that it should not start with more.
function edge_group.reached_sibling_limit()
  return sibling_cache ~= nil and sibling_cache.siblings >= SIBLINGS_MAX
end

-- The members of a set in byte order; nil if there are more than `most` or the key has another
-- type.
local function members(key, most)
  local size = try("SCARD", key)
  if type(size) ~= "number" or size > most then
    return nil
  end
  local found = size > 0 and record.members(key) or {}
  return #found == size and found or nil
end

-- The outgoing edges of an upstream in byte order, false if it has too many.
local function outgoing(prefix, upstream_eid)
  local edges = sibling_cache.outgoing[upstream_eid]
  if edges == nil then
    edges = members(prefix .. ":out:" .. upstream_eid, EDGES_MAX) or false
    sibling_cache.outgoing[upstream_eid] = edges
  end
  return edges
end

-- Whether a child may still wait for an upstream, by its record and its group.
local function waits(tag, prefix, child_eid)
  local known = sibling_cache.children[child_eid]
  if known == nil then
    local phase = read("ff:exec:" .. tag .. ":" .. child_eid .. ":core", "lifecycle_phase")
    known = text.set(phase) and phase ~= "terminal"
      and read(prefix .. ":edgegroup:" .. child_eid, "group_state") ~= "satisfied"
    sibling_cache.children[child_eid] = known
  end
  return known
end

-- Caches all edges that lead to a child: siblings often share their children.
local function cache_edges_to(prefix, child_eid)
  local edges = members(prefix .. ":in:" .. child_eid, EDGES_CACHED) or {}
  sibling_cache.reads = sibling_cache.reads + 2 + math.floor(#edges / EDGES_PER_READ)
  for _, edge_id in ipairs(edges) do
    sibling_cache.leads_to[edge_id] = child_eid
  end
end

-- The child of an edge, empty if it is unknown.
local function child_of(prefix, edge_id)
  local child = sibling_cache.leads_to[edge_id]
  if child == nil then
    child = read(prefix .. ":edge:" .. edge_id, "downstream_execution_id") or ""
    sibling_cache.leads_to[edge_id] = child
    sibling_cache.met_before[child] = (sibling_cache.met_before[child] or 0) + 1
    if sibling_cache.met_before[child] == 2 and child ~= "" then
      cache_edges_to(prefix, child)
    end
  end
  return child
end

-- The child that an edge blocks, nil if it blocks none other than `child_eid`.
local function holds_back(tag, prefix, edge_id, child_eid)
  local other = child_of(prefix, edge_id)
  if other == "" or other == child_eid or not waits(tag, prefix, other) then
    return nil
  end
  local dep = "ff:exec:" .. tag .. ":" .. other .. ":dep:" .. edge_id
  sibling_cache.met[edge_id] = dependency.RESOLVED[read(dep, "state") or ""]
  return not sibling_cache.met[edge_id] and other or nil
end

-- Whether some child other than `child_eid` still waits for this upstream.
local function needed_elsewhere(tag, prefix, upstream_eid, child_eid)
  local before = sibling_cache.waited_by[upstream_eid]
  if before and before ~= child_eid and sibling_cache.children[before] then
    return true
  end
  for _, edge_id in ipairs(outgoing(prefix, upstream_eid)) do
    if sibling_cache.reads >= READS_MAX then
      return true
    end
    local other = not sibling_cache.met[edge_id] and holds_back(tag, prefix, edge_id, child_eid)
    if other then
      sibling_cache.waited_by[upstream_eid] = other
      return true
    end
  end
  return false
end

-- The upstreams of a child that still run, each once, those with the fewest edges first, without
-- those that have too many edges.
local function candidates(tag, prefix, incoming_key, child_eid)
  local found, seen, incoming = {}, {}, record.members(incoming_key)
  sibling_cache.siblings = sibling_cache.siblings + #incoming
  for _, edge_id in ipairs(incoming) do
    sibling_cache.leads_to[edge_id] = child_eid
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
  sibling_cache = sibling_cache or {
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
