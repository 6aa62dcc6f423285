-- Resolving one edge of a child: the edge is counted, and the child is released or skipped if that
-- decides its group.

-- Whether a resolved dependency may release this child. While its flow is being submitted it may
-- not; the seal releases it.
local function releasable(core)
  return not text.set(core.unsealed)
    and core.lifecycle_phase == "runnable" and core.ownership_state == "unowned"
    and core.terminal_outcome == "none" and core.eligibility_state == "blocked_by_dependencies"
end

-- An edge of an all-of child: the child's own counters decide, and one failure is enough.
local function judge_all_of(c)
  local open = number.floor(c.meta.unsatisfied_required_count, 0) - 1
  local met = c.outcome == "success"
  return { word = met and "satisfied" or "impossible", releases = met and open == 0, open = open }
end

-- Counts an edge of an all-of child in its counters, and in its group if it has one.
local function count_all_of(k, c, plan)
  local group, open = c.group, number.digits(plan.open)
  if c.outcome ~= "success" then
    local impossible = number.floor(c.meta.impossible_required_count, 0) + 1
    call("HSET", k.deps_meta, "unsatisfied_required_count", open, "last_dependency_update_at",
      c.now, "impossible_required_count", number.digits(impossible))
    if group then
      call("HSET", k.edgegroup, "failed", number.digits(number.floor(group.failed, 0) + 1),
        "group_state", "impossible")
    end
    return
  end
  call("HSET", k.deps_meta, "unsatisfied_required_count", open, "last_dependency_update_at", c.now)
  if group then
    local decided = plan.open == 0 and group.group_state ~= "impossible"
    call("HSET", k.edgegroup, "succeeded", number.digits(number.floor(group.succeeded, 0) + 1),
      "group_state", decided and "satisfied" or text.either(group.group_state, edge_group.PENDING))
  end
end

-- The sibling-cancel job of a group that fires now: the siblings it no longer needs, and the index
-- entry by which the job is found (PendingCancelsIndexed).
local function plan_sibling_cancels(k, a, plan)
  local key_flow, key_child = flow.parts_of_group(k.edgegroup)
  local flow_id = text.either(a.flow_id, key_flow)
  local child_eid = text.either(a.downstream_eid, key_child)
  local tag = text.tag(k.edgegroup)
  if not flow_id or not child_eid or tag == "" then
    return
  end
  local incoming = text.either(k.incoming, flow.prefix(tag, flow_id) .. ":in:" .. child_eid)
  local siblings = edge_group.idle_siblings(tag, flow_id, incoming, child_eid)
  text.append(plan.group, {
    "cancel_siblings_pending_flag", "true",
    "cancel_siblings_reason", "sibling_quorum_" .. plan.word,
    "cancel_siblings_pending_members", table.concat(siblings, "|"),
  })
  plan.sibling_cancels = {
    index = text.either(k.pending_cancel_groups,
      lane.partition_index(tag, "pending_cancel_groups")),
    tuple = flow_id .. "|" .. child_eid,
  }
end

-- An edge of an any-of or quorum child: the group's counters decide.
local function judge_group(c, k, a)
  local word, fields = edge_group.count(c.group, c.dep, c.outcome, c.declared, c.now)
  if not word then
    return nil, fields
  end
  local plan = { word = word, group = fields, releases = word == "satisfied" }
  local fires = word == "satisfied" or word == "impossible"
  if fires and c.group.on_satisfied == "cancel_remaining" then
    plan_sibling_cancels(k, a, plan)
    return plan, plan.sibling_cancels and guard.mismatch(plan.sibling_cancels.index, "set")
  end
  return plan
end

local function declared_edges(k)
  local _, child_eid = flow.parts_of_group(k.edgegroup)
  local key = text.either(k.incoming,
    child_eid and k.edgegroup:match("^(.-):edgegroup:") .. ":in:" .. child_eid)
  local size = key and try("SCARD", key)
  return type(size) == "number" and size or 0
end

-- The fields that resolving an edge needs: of the child's record, unless it has to be skipped; of
-- the edge; of the child's counters.
local CHILD = {
  "execution_id", "lane_id", "current_lane", "lifecycle_phase", "ownership_state",
  "priority", "eligibility_state", "terminal_outcome", "attempt_state", "created_at",
  "delay_until", "held_as", "unsealed",
}
local EDGE = { "state", "outlived_run", "data_passing_ref", "repeats_upstream" }
local COUNTERS = { "unsatisfied_required_count", "impossible_required_count" }

-- The child's record as far as resolving an edge needs it.
function dependency.child(core_key)
  return record.select(core_key, CHILD)
end

-- The same, and what the seal of its flow needs.
local MEMBER = { "flow_id", "blocking_detail" }
for i = 1, #CHILD do
  MEMBER[i + 2] = CHILD[i]
end
function dependency.member(core_key)
  return record.select(core_key, MEMBER)
end

-- The records that decide about an edge: { dep, group, meta }, each nil if it does not exist; or
-- nil and the refusal of a key of another type. If the edge is already resolved only `dep` is read.
function dependency.records(k)
  local dep, meta, group, refused
  dep, refused = record.select(k.dep, EDGE)
  if not refused and dep and dependency.RESOLVED[dep.state] then
    return { dep = dep }
  end
  if not refused then
    meta, refused = record.select(k.deps_meta, COUNTERS)
  end
  if not refused and text.set(k.edgegroup) then
    group, refused = edge_group.read_for_edge(k.edgegroup)
  end
  if refused then
    return nil, refused
  end
  return { dep = dep, meta = meta, group = group }
end

-- What is known before an edge is resolved; nil and the reply if there is nothing to resolve.
local function case(k, a, found)
  local dep, group = found.dep, found.group
  if not dep then
    return nil, err("invalid_dependency")
  end
  if dependency.RESOLVED[dep.state] then
    return nil, ok("already_resolved")
  end
  if not dependency.OUTCOMES[a.upstream_outcome] then
    return nil, err("invalid_input",
      "upstream_outcome must be one of success, failed, cancelled, expired, skipped")
  end
  local _, refused = number.clock(a)
  if refused then
    return nil, refused
  end
  return {
    dep = dep,
    group = group,
    meta = found.meta or {},
    declared = edge_group.counted(group) and declared_edges(k) or 0,
    outcome = a.upstream_outcome,
    now = a.now_ms,
  }
end

-- What the verdict does to the child: `plan.release` or `plan.skip`; nil and a refusal if a key it
-- needs has another type. The child's record is read only if the verdict may change it, by `child`,
-- which also points the lane keys of `k` at its lane.
local function follow_up(k, c, plan, child)
  local copies = c.outcome == "success" and plan.word == "satisfied"
    and text.set(c.dep.data_passing_ref)
  if not plan.releases and plan.word ~= "impossible" and not copies then
    return plan
  end
  local core, refused = child(k)
  if not core then
    return plan, refused
  end
  refused = guard.mismatch(k.eligible, "zset") or guard.mismatch(k.terminal, "zset")
    or guard.mismatch(k.blocked, "zset")
  if refused then
    return nil, refused
  end
  plan.id = text.present(core.execution_id, "")
  if plan.word == "impossible" and core.terminal_outcome == "none" then
    core = record.read(k.exec_core)
    if text.set(core.execution_id) and (text.set(core.current_attempt_index) or not k.attempt) then
      local tag, index = text.tag(k.exec_core), text.either(core.current_attempt_index, "0")
      k.attempt = attempt.key(tag, core.execution_id, index)
      k.stream_meta = stream.meta(tag, core.execution_id, index)
    end
    refused = dependency.RUNNING[core.attempt_state] and (guard.missing(k, "attempt")
      or guard.any_mismatch({ { k.attempt, "hash" }, { k.stream_meta, "hash" } }))
    if not refused then
      plan.skip, refused = dependency.skipping(k, core)
    end
  elseif plan.releases and releasable(core) then
    plan.release, refused = dependency.releasing(k, core, c.now)
  end
  plan.copies = copies and core.terminal_outcome == "none"
    and text.set(k.payload) and text.set(k.upstream_result) and k.payload ~= k.upstream_result
  return plan, refused or (plan.copies and guard.any_mismatch({
    { k.payload, "string" }, { k.upstream_result, "string" },
  })) or nil
end

-- The refusal of a value of another type under a key of an edge that has not been read yet and is
-- not written first.
local function type_refusal(k, group)
  return guard.clash(k.unresolved, "set")
    or edge_group.counted(group) and (guard.mismatch(k.incoming, "set")
      or guard.mismatch(k.pending_cancel_groups, "set"))
    or nil
end

-- Resolves one edge of a child. Answers the reply of ff_resolve_dependency, and `released` or
-- `skipped` if the child became eligible or ended. Needs all its keys in `k` but for those that
-- `child` adds (see follow_up); `a` = { edge_id, upstream_outcome, now_ms, flow_id, downstream_eid
-- }, `found` = the records under the keys. It never raises for a key of another type, so that one
-- call can resolve many edges; such a call passes a table that collects the `moves` of children
-- (see lane.collect).
function dependency.resolve(k, a, found, child, moves)
  local refused = type_refusal(k, found.group)
  if refused then
    return refused
  end
  local c, answer = case(k, a, found)
  if not c then
    return answer
  end
  local plan
  if edge_group.counted(c.group) then
    plan, refused = judge_group(c, k, a)
  else
    plan = judge_all_of(c)
  end
  if not refused then
    plan, refused = follow_up(k, c, plan, child)
  end
  -- The first write checks the type of its key itself.
  refused = refused
    or guard.refusal(try("SREM", k.unresolved, text.present(a.edge_id, "")))
  if refused then
    return refused
  end
  -- write; nothing below can fail
  call("HSET", k.dep, "state", c.outcome == "success" and "satisfied" or "impossible",
    "last_resolved_at", c.now)
  if plan.group then
    record.write(k.edgegroup, plan.group)
  else
    count_all_of(k, c, plan)
  end
  if plan.sibling_cancels then
    call("SADD", plan.sibling_cancels.index, plan.sibling_cancels.tuple)
    push.due_in(plan.sibling_cancels.index, 0)
  end
  edge_group.child_changed(a.downstream_eid)
  local mark = ""
  if plan.copies and call("COPY", k.upstream_result, k.payload, "REPLACE") == 1 then
    mark = "data_injected"
  end
  if plan.skip then
    dependency.skip(k, plan.skip, c.now)
    return ok(plan.word, "child_skipped"), "skipped"
  end
  if plan.release then
    dependency.release(k, plan.id, plan.release, c.now, moves)
  end
  local eligible = plan.release and plan.release.vector.eligibility_state == "eligible_now"
  return ok(plan.word, mark), eligible and "released" or nil
end
