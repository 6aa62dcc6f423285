-- Submits a flow, atomically per chunk: members, edges, group policies and payloads. No member can
-- be claimed before the flow is sealed, and everything is checked before anything is written. A
-- chunk that was already written is skipped, and a sealed flow answers ALREADY_SATISFIED, so a
-- caller that lost a reply repeats the call. A flow keeps the digest of its content if a document
-- brings one, and then refuses chunks with another. It is kept as a tag, because strict readers
-- accept no further field in the core. An added function; the form of the document is described in
-- lib/submission.lua.
--
-- At most 256 members and 2048 edges per call; callers divide flows by their work, which is less
-- (SubmitFlow::work in the core). A seal releases at most 200 members per call and answers
-- `sealing` until it is done.
-- Keys: flow_core (hash), members (set of execution ids), flow_index (set of flow ids)
-- Arguments: flow_id, flow_kind, namespace, document (JSON; may be empty), seal (1 when no chunk
--   follows), then the payloads
-- Replies: open, sealing, sealed, ALREADY_SATISFIED
-- Errors: invalid_input, flow_already_terminal, self_referencing_edge, execution_not_in_flow,
--   dependency_already_exists, cycle_detected, invalid_policy_json, invalid_capabilities
-- Bound: 40000
-- Keeps: NoRunBeforeParents, GroupCounts, OneHome, ErrorMeansUntouched, RepeatIsHarmless

-- How many of the members the flow already has, and one that it does not have.
local function known_members(k, members)
  local known, unknown, ids = 0, nil, {}
  for i, member in ipairs(members) do
    ids[i] = member.execution_id
  end
  for i, is_member in ipairs(submission.are_members(k.members, ids)) do
    known = known + is_member
    unknown = unknown or is_member == 0 and ids[i] or nil
  end
  return known, unknown
end

-- The reply after the seal: a repeated chunk is acknowledged, anything new is refused.
local function after_seal(k, a, core, payloads)
  local chunk, refused = submission.read(a.document, text.tag(k.flow_core), a.namespace, payloads)
  refused = refused or chunk.content and submission.differs(k.flow_core, core, chunk)
  if refused then
    return refused
  end
  local _, unknown = known_members(k, chunk.members)
  if unknown then
    return err("invalid_input", "flow is sealed without member: " .. unknown)
  end
  if #chunk.members == 0
    and submission.known_edges(flow.prefix_of(k.flow_core), chunk.edges) < #chunk.edges then
    return err("invalid_input", "flow is sealed without an edge of this chunk")
  end
  return already_satisfied("sealed", number.floor(core.node_count, 0))
end

-- What has to be written for a chunk: the chunk if it is new, nil if it was written before; or nil
-- and a refusal.
local function new_chunk(k, a, core, payloads, now, seals)
  local tag, prefix = text.tag(k.flow_core), flow.prefix_of(k.flow_core)
  local chunk, refused = submission.read(a.document, tag, a.namespace, payloads)
  refused = refused or chunk.content and submission.differs(k.flow_core, core, chunk)
  if refused then
    return nil, refused
  end
  local known = known_members(k, chunk.members)
  if known > 0 and known == #chunk.members then
    return nil
  end
  if #chunk.members == 0 and #chunk.edges > 0
    and submission.known_edges(prefix, chunk.edges) == #chunk.edges then
    return nil
  end
  if known > 0 then
    return nil, err("invalid_input", "chunk mixes new members with known ones")
  end
  refused = submission.check(chunk, k.members, prefix, a.flow_id)
    or submission.plan(chunk, tag, prefix, now, seals)
  if refused then
    return nil, refused
  end
  return chunk
end

local function payloads_of(arg_list)
  local payloads = {}
  for i = 6, #arg_list do
    payloads[i - 5] = arg_list[i]
  end
  return payloads
end

-- Opens the flow if it is new and writes the chunk. Answers how many members the flow has.
local function write_chunk(k, a, core, chunk, now, seals)
  local nodes = number.floor(core and core.node_count, 0) + (chunk and #chunk.members or 0)
  local edges = number.floor(core and core.edge_count, 0) + (chunk and #chunk.edges or 0)
  call("SADD", k.flow_index, a.flow_id)
  if not core then
    flow.open(k.flow_core, a.flow_id, a.flow_kind, a.namespace, now, nodes, edges)
    if chunk and chunk.content then
      submission.keep_content(k.flow_core, chunk)
    end
  elseif not chunk then
    -- A repeated chunk shows that the submission is not abandoned.
    call("HSET", k.flow_core, "last_mutation_at", number.digits(now))
    return nodes
  end
  if not chunk then
    return nodes
  end
  local revision = number.floor(core and core.graph_revision, 0) + #chunk.members + #chunk.edges
  submission.write(chunk, k, text.tag(k.flow_core), a.flow_id, revision, now, seals)
  if core then
    record.write(k.flow_core, {
      "graph_revision", revision, "node_count", nodes, "edge_count", edges,
      "last_mutation_at", now,
    })
  end
  return nodes
end

-- The releases of members of earlier chunks that a call with this chunk has time for, or nil and a
-- refusal. Those that nothing can release do not stop a seal that begins.
local function planned_releases(k, stage, chunk, now)
  if not stage then
    return {}
  end
  -- An edge costs about as much as a member or its release.
  local brought = chunk and #chunk.members + #chunk.edges or 0
  local limit = math.max(0, submission.SEALED_AT_ONCE - brought)
  local steps, refused = submission.sealing(k.flow_core, now, limit)
  if refused and (stage == "sealing" or not steps) then
    return nil, refused
  end
  return steps
end

define("ff_submit_flow",
  { "flow_core!=hash", "members!=set", "flow_index!:set" },
  { "flow_id!", "flow_kind!", "namespace!", "document", "seal" },
  function(k, a, _, arg_list)
    local core = record.read(k.flow_core)
    local stage, refused, to_come = submission.stage(k.flow_core)
    refused = refused or flow.misnamed(k.flow_core, a.flow_id)
    if refused then return refused end
    local payloads = payloads_of(arg_list)
    if core and not stage then return after_seal(k, a, core, payloads) end
    if core and flow.closed(core) then return err("flow_already_terminal") end
    local now, seals = number.now(), a.seal == "1" or stage == "sealing"
    local unsealed, submitted = submission.keys(k.flow_core)
    local chunk, steps
    chunk, refused = new_chunk(k, a, core, payloads, now, seals)
    if not refused and chunk and #chunk.members + #chunk.edges > 0 and stage == "sealing" then
      refused = err("invalid_input", "flow is being sealed")
    end
    to_come = to_come + (chunk and chunk.to_come or 0)
    if not refused and a.seal == "1" and to_come > 0 then
      refused = err("invalid_input", "edges of joins are missing: " .. number.digits(to_come))
    end
    if not refused and seals then
      steps, refused = planned_releases(k, stage, chunk, now)
    elseif not refused then
      refused = guard.mismatch(unsealed, "zset")
    end
    if refused then return refused end
    -- write; nothing below can fail
    if not seals then
      call("SET", submitted, to_come > 0 and "open|" .. number.digits(to_come) or "open")
    end
    if seals and stage then call("SET", submitted, "sealing") end
    local nodes = write_chunk(k, a, core, chunk, now, seals)
    if not seals then return ok("open", call("ZCARD", unsealed)) end
    local left = stage and submission.seal(k.flow_core, steps, now) or 0
    if left > 0 then return ok("sealing", left) end
    return ok("sealed", nodes)
  end)
