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

-- The index of members that wait for the seal, and the key that holds how far the submission is:
-- `open`, `sealing`, or absent once it is sealed.
function submission.keys(flow_core)
  local prefix = flow.prefix_of(flow_core)
  return prefix .. ":unsealed", prefix .. ":submission"
end

-- How far the submission of a flow is, nil when it is over, or nil and the refusal of a foreign key.
function submission.stage(flow_core)
  local unsealed, submitted = submission.keys(flow_core)
  local refused = guard.any_mismatch({ { unsealed, "zset" }, { submitted, "string" } })
  if refused then
    return nil, refused
  end
  return call("GET", submitted) or nil
end

local MEMBER_FIELDS = {
  "execution_id", "lane_id", "execution_kind", "priority", "creator_identity", "policy_json",
  "delay_until", "tags_json", "execution_deadline_at", "partition_id",
}

local LISTS = {
  { name = "members", fields = MEMBER_FIELDS },
  { name = "edges", fields = {
    "edge_id", "upstream_eid", "downstream_eid", "dependency_kind", "data_passing_ref",
  } },
  { name = "groups", fields = { "downstream_eid", "policy_variant", "on_satisfied", "k" } },
}

local function invalid(why, id)
  return nil, err("invalid_input", id and why .. ": " .. id or why)
end

-- The items of one list of the document with their named fields as text, or nil and a refusal.
local function read_items(document, list_name, names)
  local items, list = {}, document[list_name]
  if list == nil or list == cjson.null then
    return items
  end
  if type(list) ~= "table" or (#list == 0 and next(list) ~= nil) then
    return invalid(list_name .. " must be a list")
  end
  for _, given in ipairs(list) do
    if type(given) ~= "table" then
      return invalid(list_name .. " must hold objects")
    end
    local item = { given = given }
    for _, name in ipairs(names) do
      local value = given[name]
      if type(value) == "string" or type(value) == "number" then
        item[name] = number.text(value)
      elseif value ~= nil and value ~= cjson.null then
        return invalid(name .. " must be a text or a number")
      end
    end
    items[#items + 1] = item
  end
  return items
end

-- The members of a chunk by id, with defaults and payloads filled in; or nil and a refusal.
local function index_members(members, tag, namespace, payloads)
  local by_id = {}
  for _, member in ipairs(members) do
    local id = text.present(member.execution_id, "")
    if text.tag(id) ~= tag or id:sub(1, #tag) ~= tag then
      return invalid("member is not of the flow's partition", id)
    end
    if by_id[id] then
      return invalid("member appears twice", id)
    end
    local payload = member.given.payload
    if payload ~= nil and payload ~= cjson.null and payloads[payload] == nil then
      return invalid("member names a payload that is not there", id)
    end
    by_id[id] = member
    member.inbound, member.voices = {}, {}
    member.namespace, member.dedup_ttl_ms = namespace, ""
    member.input_payload = payloads[payload] or ""
    member.lane_id = text.either(member.lane_id, "default")
    member.priority = text.either(member.priority, "0")
    for _, name in ipairs(MEMBER_FIELDS) do
      member[name] = text.present(member[name], "")
    end
  end
  return by_id
end

-- Ties the edges to their children; nil, or the refusal of the first bad one.
local function tie_edges(edges, by_id, members_key, prefix, flow_id)
  local seen, earlier = {}, {}
  local function is_member(id)
    if earlier[id] == nil then
      earlier[id] = call("SISMEMBER", members_key, id) == 1
        and not projection.has_lost(prefix, flow_id, id)
    end
    return earlier[id]
  end
  for _, edge in ipairs(edges) do
    local id, from = text.present(edge.edge_id, ""), text.present(edge.upstream_eid, "")
    local child = by_id[text.present(edge.downstream_eid, "")]
    if id == "" or seen[id] then
      return err("invalid_input", "edge has no id of its own: " .. id)
    end
    if from == edge.downstream_eid then
      return err("self_referencing_edge", id)
    end
    if not child or not (by_id[from] or is_member(from)) then
      return err("execution_not_in_flow", id)
    end
    if call("EXISTS", prefix .. ":edge:" .. id) == 1 then
      return err("dependency_already_exists", id)
    end
    seen[id] = true
    child.inbound[#child.inbound + 1] = edge
    if not child.voices[from] then
      child.voices[from], child.voice_count = true, (child.voice_count or 0) + 1
    end
  end
  return nil
end

-- Whether the edges within the chunk go round in a circle.
local function has_cycle(members, by_id)
  local waits_for, waiting, ready, placed = {}, {}, {}, 0
  for _, member in ipairs(members) do
    waits_for[member] = 0
    for _, edge in ipairs(member.inbound) do
      local upstream = by_id[edge.upstream_eid]
      if upstream then
        waits_for[member] = waits_for[member] + 1
        waiting[upstream] = waiting[upstream] or {}
        text.append(waiting[upstream], { member })
      end
    end
    if waits_for[member] == 0 then
      ready[#ready + 1] = member
    end
  end
  while #ready > placed do
    placed = placed + 1
    for _, child in ipairs(waiting[ready[placed]] or {}) do
      waits_for[child] = waits_for[child] - 1
      if waits_for[child] == 0 then
        ready[#ready + 1] = child
      end
    end
  end
  return placed < #members
end

-- Ties the group policies to their children; nil, or the refusal of the first bad one.
local function tie_groups(groups, by_id)
  for _, group in ipairs(groups) do
    local child = by_id[text.present(group.downstream_eid, "")]
    if not child then
      return err("execution_not_in_flow", text.present(group.downstream_eid, ""))
    end
    local wanted, refused =
      edge_group.policy(group.policy_variant, group.on_satisfied, group.k)
    if not wanted then
      return refused
    end
    local needed = wanted.policy_variant == "quorum" and wanted.k or 1
    if child.group or needed > (child.voice_count or 0) then
      return err("invalid_input", "group cannot be met or appears twice: " .. child.execution_id)
    end
    child.group = wanted
  end
  return nil
end

-- The chunk that a document describes: { members, edges }, all of it checked against itself, or nil
-- and a refusal. Nothing in it is known to the store yet but the upstreams it names.
function submission.read(encoded, tag, namespace, payloads)
  encoded = text.either(encoded, "{}")
  local document = text.json(encoded)
  if type(document) ~= "table" or not encoded:match("^%s*{") then
    return invalid("document must be a JSON object")
  end
  local chunk, refused = {}, nil
  for _, list in ipairs(LISTS) do
    chunk[list.name], refused = read_items(document, list.name, list.fields)
    if refused then
      return nil, refused
    end
  end
  if #chunk.members > submission.MEMBERS_MAX or #chunk.edges > submission.EDGES_MAX
    or #chunk.groups > submission.MEMBERS_MAX then
    return invalid("chunk is too large")
  end
  chunk.by_id, refused = index_members(chunk.members, tag, namespace, payloads)
  if refused then
    return nil, refused
  end
  return chunk
end

-- Checks a new chunk against the flow: nil, or the refusal.
function submission.check(chunk, members_key, prefix, flow_id)
  local refused = tie_edges(chunk.edges, chunk.by_id, members_key, prefix, flow_id)
  if refused then
    return refused
  end
  if has_cycle(chunk.members, chunk.by_id) then
    return err("cycle_detected")
  end
  return tie_groups(chunk.groups, chunk.by_id)
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

-- Plans the birth of every member of the chunk; nil, or a refusal.
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

-- Plans the release of one member that waits for the seal: { id, k, exists (whether it has a
-- record), plan (nil when it stays as it is), foreign (the refusal of a key that it needs and that is none of ours) }.
local function sealing_of(tag, id, now)
  local front = dependency.front(tag, id)
  local step = { id = id, k = { exec_core = front .. ":core", deps_meta = front .. ":deps:meta" } }
  if guard.mismatch(step.k.exec_core, "hash") then
    -- Whatever this is, nobody marked it as unsealed.
    return step
  end
  local core = record.read(step.k.exec_core)
  if not core then
    return step
  end
  core.unsealed = nil
  step.exists = true
  step.k.eligible = lane.index(tag, lane.of(core), "eligible")
  step.k.blocked = lane.index(tag, lane.of(core), "blocked:dependencies")
  step.foreign = guard.any_mismatch({
    { step.k.deps_meta, "hash" }, { step.k.eligible, "zset" }, { step.k.blocked, "zset" },
  })
  if not step.foreign and core.eligibility_state == "blocked_by_dependencies"
    and core.lifecycle_phase == "runnable"
    and dependency.standing(step.k, core) == "eligible" then
    step.plan, step.foreign = dependency.releasing(step.k, core, now)
  end
  return step
end

-- Plans the release of the next members that wait for the seal. Also answers the refusal when
-- foreign keys keep every one of them from it.
function submission.sealing(flow_core, now)
  local tag, steps, foreign = text.tag(flow_core), {}, 0
  local unsealed = submission.keys(flow_core)
  for i, id in ipairs(call("ZRANGE", unsealed, 0, submission.SEALED_AT_ONCE - 1)) do
    steps[i] = sealing_of(tag, id, now)
    foreign = foreign + (steps[i].foreign and 1 or 0)
  end
  return steps, foreign == #steps and foreign > 0 and steps[1].foreign or nil
end

-- Lets a member wait behind all others, until what stands in its way is gone.
local function put_last(unsealed, id)
  local last = call("ZRANGE", unsealed, -1, -1, "WITHSCORES")
  call("ZADD", unsealed, number.digits(number.floor(last[2], 0) + 1), id)
end

-- Carries the planned releases out; answers how many members still wait. With the last of them the
-- submission is over.
function submission.seal(flow_core, steps, now)
  local unsealed, submitted = submission.keys(flow_core)
  for _, step in ipairs(steps) do
    if step.foreign then
      put_last(unsealed, step.id)
    else
      if step.exists then
        call("HDEL", step.k.exec_core, "unsealed")
      end
      if step.plan then
        dependency.release(step.k, step.id, step.plan, number.digits(now))
      end
      call("ZREM", unsealed, step.id)
    end
  end
  local left = call("ZCARD", unsealed)
  if left == 0 then
    call("DEL", submitted)
  end
  return left
end
