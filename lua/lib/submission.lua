-- A flow submitted as a whole, in chunks. A chunk is one JSON document and the payloads beside it:
--
--   { "members": [ { "execution_id", "lane_id", "execution_kind", "priority", "creator_identity",
--                    "policy_json", "payload" (which of the payloads, from 1), "delay_until",
--                    "tags_json", "execution_deadline_at", "partition_id", "edge_count" (of all
--                    edges to it, if later chunks bring some of them) } ],
--     "edges":   [ { "edge_id", "upstream_eid", "downstream_eid", "dependency_kind",
--                    "data_passing_ref" } ],
--     "groups":  [ { "downstream_eid", "policy_variant", "on_satisfied", "k" } ],
--     "content": a digest of the whole flow, the same in all its chunks }
--
-- A chunk brings its members together with their inbound edges: an edge leads to a member of the
-- same chunk, from one of this or an earlier chunk. A join of too many edges for one call gets the
-- others in later chunks (submission_join.lua); its group counts all of them from the beginning.
-- Members of a chunk that others follow are held back by the mark `unsealed` on their records until
-- the seal: the revision of the graph with their chunk, which tells older members from younger
-- ones. So a cycle can only lie within a chunk. Members of the last chunk are written as they are
-- after the seal, so a flow that comes in one chunk needs no mark.

submission.MEMBERS_MAX = 256
submission.EDGES_MAX = 2048

-- How many members one call releases, fewer if it also brings some: so that no call takes long.
submission.SEALED_AT_ONCE = 200

-- How long after its last chunk an unsealed submission counts as abandoned by its submitter.
submission.ABANDONED_MS = 3600000

-- The index of members that wait for the seal, and the key that holds the stage of the submission:
-- `open`, with the number of edges that were announced and are still to come behind a `|` if there
-- are any; `sealing`; or missing once it is sealed.
function submission.keys(flow_core)
  local prefix = flow.prefix_of(flow_core)
  return prefix .. ":unsealed", prefix .. ":submission"
end

-- The detail of a member without dependencies that waits for the seal.
submission.WAITS = "flow is being submitted"

-- The stage of a flow's submission, nil if it is over, or nil and the refusal of a key of another
-- type. Also how many edges are still to come.
function submission.stage(flow_core)
  local unsealed, submitted = submission.keys(flow_core)
  local stage = try("GET", submitted)
  local refused = guard.refusal(stage) or guard.clash(submitted, "string")
    or guard.clash(unsealed, "zset")
  if refused then
    return nil, refused
  end
  local name, to_come = (stage or ""):match("^(%a+)|(%d+)$")
  return name or stage or nil, nil, number.whole(to_come) or 0
end

-- Notes a key that is new unless something is wrong, and its type.
local function note(new, key, kind)
  local at = #new.keys + 1
  new.keys[at], new.kinds[at] = key, kind
  new.refused = guard.clash(key, kind) or new.refused
end
submission.note = note

-- Notes the keys of the inbound edges of a member.
function submission.note_edges(member, tag, prefix, new)
  local dep = dependency.front(tag, member.execution_id) .. ":dep:"
  for i = 1, #member.inbound do
    local edge = member.inbound[i]
    edge.key, edge.dep = prefix .. ":edge:" .. edge.edge_id, dep .. edge.edge_id
    note(new, edge.key, "hash")
    note(new, edge.dep, "hash")
  end
end

-- Adds the keys about the dependencies of a member to its keys `k`.
function submission.add_dependency_keys(k, tag, prefix, id)
  local front = dependency.front(tag, id)
  k.deps_meta = front .. ":deps:meta"
  k.unresolved, k.all_edges = front .. ":deps:unresolved", front .. ":deps:all_edges"
  k.edgegroup, k.incoming = prefix .. ":edgegroup:" .. id, prefix .. ":in:" .. id
end

-- The keys of a new member by the names of ff_create_execution and ff_apply_dependency_to_child.
local function member_keys(tag, prefix, member, new)
  local id = member.execution_id
  local front = dependency.front(tag, id)
  local k = {
    exec_core = front .. ":core", payload = front .. ":payload", policy = front .. ":policy",
    execution_deadline = lane.partition_index(tag, "execution_deadline"),
    blocked = lane.index(tag, member.lane_id, "blocked:dependencies"),
  }
  note(new, k.exec_core, "hash")
  note(new, k.payload, "string")
  note(new, k.policy, "string")
  if #member.inbound > 0 then
    submission.add_dependency_keys(k, tag, prefix, id)
    note(new, k.deps_meta, "hash")
    note(new, k.unresolved, "set")
    note(new, k.all_edges, "set")
    note(new, k.edgegroup, "hash")
    note(new, k.incoming, "set")
    submission.note_edges(member, tag, prefix, new)
  end
  return k
end

-- Whether any of these keys exists.
local function any_exists(keys)
  for first = 1, #keys, 1000 do
    if call("EXISTS", unpack(keys, first, math.min(first + 999, #keys))) > 0 then
      return true
    end
  end
  return false
end

-- Something is under a key that should be new: the refusal of an edge or member that exists already
-- and of a value of another type. Anything else is added to.
local function add_to_known(chunk, new)
  for _, edge in ipairs(chunk.edges) do
    if call("EXISTS", edge.key) == 1 then
      return err("dependency_already_exists", edge.edge_id)
    end
  end
  for _, member in ipairs(chunk.members) do
    if call("EXISTS", member.k.exec_core) == 1 then
      return err("invalid_input", "member exists already: " .. member.execution_id)
    end
  end
  for i, key in ipairs(new.keys) do
    local refused = new.kinds[i] ~= "string" and guard.mismatch(key, new.kinds[i])
    if refused then
      return refused
    end
  end
  for _, member in ipairs(chunk.members) do
    if #member.inbound > 0 then
      local meta = record.fields(member.k.deps_meta, "unsatisfied_required_count")
      member.open = number.floor(meta.unsatisfied_required_count, 0)
      member.known_group = record.read(member.k.edgegroup)
      if member.edges_in_all then
        member.edges_in_all = member.edges_in_all + number.floor((member.known_group or {}).n, 0)
      end
    end
  end
  return nil
end

-- The refusal of a value of another type in one of the indexes that the chunk is added to.
local function check_indexes(chunk, tag, prefix, new)
  for _, member in ipairs(chunk.members) do
    local refused = member.plan.home == member.k.blocked
      and guard.mismatch(member.k.blocked, "zset")
    if refused then
      return refused
    end
  end
  local earlier = {}
  for _, list in ipairs(chunk.outgoing) do
    list.key = prefix .. ":out:" .. list.from
    if chunk.by_id[list.from] then
      note(new, list.key, "set")
    else
      earlier[#earlier + 1] = list.key
    end
  end
  -- Most members of a wide join have no edges yet.
  local refused = any_exists(earlier) and guard.any_other(earlier, "set")
  if refused then
    return refused
  end
  for _, key in ipairs(earlier) do
    new.refused = guard.clash(key, "set") or new.refused
  end
  return guard.mismatch(lane.partition_index(tag, "all_executions"), "set") or new.refused
end

-- Plans the creation of every member of the chunk; nil, or a refusal. `seals` = whether no chunk
-- follows.
function submission.plan(chunk, tag, prefix, now, seals)
  local new = { keys = {}, kinds = {} }
  for _, member in ipairs(chunk.members) do
    local refused
    member.k = member_keys(tag, prefix, member, new)
    member.plan, refused = creation.plan(member.k, member, now)
    if refused then
      return refused
    end
    -- Only now, because its type is looked up together with those of all new keys.
    member.k.tags = dependency.front(tag, member.execution_id) .. ":tags"
    if #member.plan.tags > 0 then
      note(new, member.k.tags, "hash")
    end
    member.open = 0
    local edges = #member.inbound
    if not seals or edges > 0 then
      member.plan.row = state.waiting_children(submission.WAITS, "pending_first_attempt")
      member.plan.home, member.plan.score = member.k.blocked, now
    end
  end
  local refused = submission.plan_joins(chunk, tag, prefix, new)
    or check_indexes(chunk, tag, prefix, new)
  if not refused and any_exists(new.keys) then
    refused = add_to_known(chunk, new)
  end
  return refused
end

-- Writes the inbound edges of a member: the flow's records of them and the child's.
local function write_edges(member, flow_id, revision, stamp)
  local k, edges, ids, upstreams = member.k, member.inbound, {}, {}
  for i = 1, #edges do
    ids[i], upstreams[i] = edges[i].edge_id, edges[i].upstream_eid
  end
  local grown, repeats =
    edge_group.grow(member.group or member.known_group, upstreams, member.edges_in_all)
  record.write(k.edgegroup, member.group
    and text.append(edge_group.declaration(member.group, stamp), grown) or grown)
  for i = 1, #edges do
    local edge = edges[i]
    flow.write_edge(edge.key, flow_id, edge, stamp)
    dependency.write(edge.dep, flow_id, member.execution_id, edge, repeats[i])
  end
  record.each_chunk("SADD", k.incoming, ids)
  record.each_chunk("SADD", k.unresolved, ids)
  record.each_chunk("SADD", k.all_edges, ids)
  call("HSET", k.deps_meta,
    "unsatisfied_required_count", number.digits(member.open),
    "flow_id", flow_id,
    "last_flow_graph_revision", revision,
    "last_dependency_update_at", stamp)
end

-- Writes a planned chunk; `revision` = that of the graph with it.
function submission.write(chunk, k, tag, flow_id, revision, now, seals)
  local prefix, stamp = flow.prefix_of(k.flow_core), number.digits(now)
  local ids, unsealed, deadlines, moves = {}, {}, {}, {}
  local soonest
  local mark = number.digits(revision)
  for i, member in ipairs(chunk.members) do
    local plan, id, edges = member.plan, member.execution_id, #member.inbound
    if edges > 0 then
      member.open = member.open + edges
      plan.row.blocking_detail = dependency.detail(member.open, member.inbound[edges].edge_id)
    end
    creation.write_records(member.k, member, plan,
      seals and { "flow_id", flow_id } or { "flow_id", flow_id, "unsealed", mark })
    if edges > 0 then
      write_edges(member, flow_id, mark, stamp)
    end
    lane.collect(moves, id, nil, plan.home, plan.score)
    ids[i] = id
    unsealed[2 * i - 1], unsealed[2 * i] = number.digits(revision + i), id
    if plan.deadline_at then
      text.append(deadlines, { number.digits(plan.deadline_at), id })
      soonest = math.min(soonest or plan.deadline_at, plan.deadline_at)
    end
  end
  for _, join in ipairs(chunk.joins) do
    join.open = join.open + #join.inbound
    write_edges(join, flow_id, mark, stamp)
  end
  for _, list in ipairs(chunk.outgoing) do
    record.each_chunk("SADD", list.key, list.edges)
  end
  record.each_chunk("SADD", k.members, ids)
  record.each_chunk("SADD", lane.partition_index(tag, "all_executions"), ids)
  record.each_chunk("ZADD", lane.partition_index(tag, "execution_deadline"), deadlines)
  if soonest then push.due(lane.partition_index(tag, "execution_deadline"), soonest) end
  if not seals then
    record.each_chunk("ZADD", prefix .. ":unsealed", unsealed)
  end
  lane.carry_out(moves)
  for _, list in ipairs(chunk.outgoing) do
    if list.outcome then
      completion.announce(list.from, flow_id, list.outcome)
    end
  end
end
