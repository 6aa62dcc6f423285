-- Joins of more edges than one call can bring. The chunk of the join says how many edges lead to it
-- in all (`edge_count`), and brings the first of them; later chunks bring the others. Nothing can
-- be decided meanwhile: upstreams and join are unsealed, the group counts the edges that are still
-- to come, and the flow cannot be sealed without them. An edge that comes later is accepted only
-- from a member that is older than the join, by their `unsealed` marks, so that it cannot close a
-- cycle.

-- The most edges to one execution that its chunk may announce.
local EDGES_MAX = 1000000

-- Reads how many edges lead to each new member in all: nil, or the refusal of an invalid number.
-- chunk.to_come = by how many the edges grow that are still to come.
function submission.expect_edges(chunk)
  chunk.to_come = 0
  for _, member in ipairs(chunk.members) do
    if member.edge_count ~= "" then
      local count = number.whole(member.edge_count)
      if not count or count < #member.inbound or count > EDGES_MAX or #member.inbound == 0 then
        return err("invalid_input", "edge_count is not that of its edges: "
          .. member.execution_id)
      end
      member.edges_in_all = count
      chunk.to_come = chunk.to_come + count - #member.inbound
    end
  end
  return nil
end

-- The members of earlier chunks that edges of this one lead to, by id and as chunk.joins: {
-- execution_id, mark, inbound, upstreams }. Those that are not held back any more are left out.
function submission.find_joins(chunk, members_key, prefix, flow_id)
  local ids, met, joins = {}, {}, {}
  chunk.joins = {}
  for i = 1, #chunk.edges do
    local id = chunk.edges[i].downstream_eid or ""
    if not chunk.by_id[id] and not met[id] then
      ids[#ids + 1], met[id] = id, true
    end
  end
  local is_member = submission.are_members(members_key, ids)
  for i, id in ipairs(ids) do
    local purged, _, mark = true, nil, nil
    if is_member[i] == 1 then
      purged, _, mark = projection.is_purged(prefix, flow_id, id)
    end
    if not purged and mark then
      joins[id] = { execution_id = id, mark = mark, inbound = {}, upstreams = {} }
      chunk.joins[#chunk.joins + 1] = joins[id]
    end
  end
  return joins
end

-- Whether an upstream of an earlier chunk is older than the join.
function submission.is_older(upstream, join)
  return upstream ~= nil and upstream.mark ~= nil and upstream.mark < join.mark
end

-- The types of what a join has already.
local TYPES = {
  { "deps_meta", "hash" }, { "unresolved", "set" }, { "all_edges", "set" },
  { "edgegroup", "hash" }, { "incoming", "set" },
}

-- Plans the further edges of joins: notes their keys, and reads what the joins have. Nil, or the
-- refusal of a key of another type.
function submission.plan_joins(chunk, tag, prefix, new)
  for _, join in ipairs(chunk.joins) do
    local k, id = {}, join.execution_id
    submission.add_dependency_keys(k, tag, prefix, id)
    for _, of in ipairs(TYPES) do
      local refused = guard.mismatch(k[of[1]], of[2])
      if refused then
        return refused
      end
    end
    submission.note_edges(join, tag, prefix, new)
    local notes = text.append({}, edge_group.READ)
    for i = 1, #join.inbound do
      notes[#notes + 1] = edge_group.note_of(join.inbound[i].upstream_eid)
    end
    local group = record.part(k.edgegroup, notes)
    local listed = call("SCARD", k.incoming) + #join.inbound
    local announced = number.floor(group and group.n, 0)
    join.k, join.known_group = k, group
    join.edges_in_all = math.max(listed, announced)
    chunk.to_come = chunk.to_come
      - math.max(0, math.min(#join.inbound, announced - listed + #join.inbound))
    join.open = number.floor(call("HGET", k.deps_meta, "unsatisfied_required_count"), 0)
  end
  return nil
end

-- How many of the edges the flow already has.
function submission.known_edges(prefix, edges)
  local known = 0
  for first = 1, #edges, 1000 do
    local keys = {}
    for i = first, math.min(first + 999, #edges) do
      keys[#keys + 1] = prefix .. ":edge:" .. (edges[i].edge_id or "")
    end
    known = known + call("EXISTS", unpack(keys))
  end
  return known
end
