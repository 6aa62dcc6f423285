-- A flow submitted as a whole, in chunks. A chunk is one JSON document and the payloads beside it:
--
--   { "members": [ { "execution_id", "lane_id", "execution_kind", "priority", "creator_identity",
--                    "policy_json", "payload" (which of the payloads, from 1), "delay_until",
--                    "tags_json", "execution_deadline_at", "partition_id" } ],
--     "edges":   [ { "edge_id", "upstream_eid", "downstream_eid", "dependency_kind",
--                    "data_passing_ref" } ],
--     "groups":  [ { "downstream_eid", "policy_variant", "on_satisfied", "k" } ] }
--
-- A chunk brings its members together with all their inbound edges: an edge leads to a member of
-- the same chunk, from one of this or an earlier chunk. So a group is whole from the moment it
-- exists, and a cycle can only lie within a chunk. Until the seal every member is held back by
-- the mark `unsealed` on its record.

submission.MEMBERS_MAX = 256
submission.EDGES_MAX = 2048
submission.SEALED_AT_ONCE = 512

-- How long after its last chunk an unsealed submission counts as abandoned by its submitter.
submission.ABANDONED_MS = 3600000

-- The index of members that wait for the seal, and the key that holds the stage of the submission:
-- `open`, `sealing`, or missing once it is sealed.
function submission.keys(flow_core)
  local prefix = flow.prefix_of(flow_core)
  return prefix .. ":unsealed", prefix .. ":submission"
end

-- The stage of a flow's submission, nil if it is over, or nil and the refusal of a key of another
-- type.
function submission.stage(flow_core)
  local unsealed, submitted = submission.keys(flow_core)
  local refused = guard.any_mismatch({ { unsealed, "zset" }, { submitted, "string" } })
  if refused then
    return nil, refused
  end
  return call("GET", submitted) or nil
end

-- The keys of a new member, all checked: by the names of ff_create_execution and
-- ff_apply_dependency_to_child, or nil and a refusal.
local function member_keys(tag, prefix, member)
  local id = member.execution_id
  local front = dependency.front(tag, id)
  local k = {
    exec_core = front .. ":core", payload = front .. ":payload", policy = front .. ":policy",
    tags = front .. ":tags", deps_meta = front .. ":deps:meta",
    unresolved = front .. ":deps:unresolved", all_edges = front .. ":deps:all_edges",
    edgegroup = prefix .. ":edgegroup:" .. id, incoming = prefix .. ":in:" .. id,
    eligible = lane.index(tag, member.lane_id, "eligible"),
    blocked = lane.index(tag, member.lane_id, "blocked:dependencies"),
    execution_deadline = lane.partition_index(tag, "execution_deadline"),
    all_executions = lane.partition_index(tag, "all_executions"),
  }
  local checks = {
    { k.tags, "hash" }, { k.deps_meta, "hash" }, { k.unresolved, "set" }, { k.all_edges, "set" },
    { k.edgegroup, "hash" }, { k.incoming, "set" }, { k.eligible, "zset" },
    { k.blocked, "zset" }, { k.execution_deadline, "zset" }, { k.all_executions, "set" },
  }
  -- These are new or overwritten, and no other key of the call may be one of them.
  local refused = guard.clash(k.exec_core, "hash") or guard.clash(k.payload, "string")
    or guard.clash(k.policy, "string")
  for _, edge in ipairs(member.inbound) do
    refused = refused or guard.clash(prefix .. ":edge:" .. edge.edge_id, "hash")
    text.append(checks, {
      { front .. ":dep:" .. edge.edge_id, "hash" },
      { prefix .. ":out:" .. edge.upstream_eid, "set" },
    })
  end
  return k, refused or guard.any_mismatch(checks)
end

-- Plans the creation of every member of the chunk; nil, or a refusal.
function submission.plan(chunk, tag, prefix, now)
  for _, member in ipairs(chunk.members) do
    local refused
    member.k, refused = member_keys(tag, prefix, member)
    if not refused and call("EXISTS", member.k.exec_core) == 1 then
      refused = err("invalid_input", "member exists already: " .. member.execution_id)
    end
    if not refused then
      member.plan, refused = creation.plan(member.k, member, now)
    end
    if refused then
      return refused
    end
    member.plan.row = state.waiting_children("flow is being submitted", "pending_first_attempt")
    member.plan.home, member.plan.score = member.k.blocked, now
  end
  return nil
end

-- Writes one inbound edge of a member: the flow's record of it and the child's.
local function write_edge(member, edge, flow_id, prefix, revision, now)
  local k, stamp = member.k, number.digits(now)
  edge.flow_id = flow_id
  flow.write_edge(prefix .. ":edge:" .. edge.edge_id, edge, now)
  call("SADD", prefix .. ":out:" .. edge.upstream_eid, edge.edge_id)
  call("SADD", k.incoming, edge.edge_id)
  edge.graph_revision, edge.now_ms = number.digits(revision), stamp
  k.dep = dependency.front(text.tag(k.exec_core), member.execution_id) .. ":dep:" .. edge.edge_id
  local core = {
    execution_id = member.execution_id, lane_id = member.lane_id, created_at = stamp,
    lifecycle_phase = "runnable", terminal_outcome = "none", ownership_state = "unowned",
    eligibility_state = "blocked_by_dependencies", attempt_state = "pending_first_attempt",
  }
  local plan = dependency.applying(k, core, edge)
  dependency.apply(k, core, edge, plan)
  dependency.announce_if_ended(k.exec_core, edge)
end

-- Writes a planned chunk.
function submission.write(chunk, flow_id, members_key, prefix, revision, now)
  for i, member in ipairs(chunk.members) do
    creation.write(member.k, member, member.plan, { "flow_id", flow_id, "unsealed", "1" })
    call("SADD", members_key, member.execution_id)
    call("ZADD", prefix .. ":unsealed", number.digits(revision + i), member.execution_id)
    if member.group then
      edge_group.declare(member.k.edgegroup, member.group, now)
    end
  end
  for _, member in ipairs(chunk.members) do
    for _, edge in ipairs(member.inbound) do
      write_edge(member, edge, flow_id, prefix, revision, now)
    end
  end
end
