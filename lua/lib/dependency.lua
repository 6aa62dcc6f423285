-- Dependencies as the child sees them: an edge is applied to it, later resolved by the end of its
-- upstream, and the verdict then releases the child or skips it.
--
--   unsatisfied ──success──▶ satisfied
--        ▲  └─────other────▶ impossible
--        └──────replay───────────┘

dependency.RESOLVED = { satisfied = true, impossible = true }

local OUTCOMES = {
  success = true, failed = true, cancelled = true, expired = true, skipped = true,
}

-- `ff:exec:<tag>:<eid>`, the front of every key of an execution.
function dependency.front(tag, execution_id)
  return "ff:exec:" .. tag .. ":" .. execution_id
end

-- The outcome of an execution that ended, nil while it runs or when it is gone.
function dependency.outcome_of(core)
  if core and core.lifecycle_phase == "terminal" and OUTCOMES[core.terminal_outcome] then
    return core.terminal_outcome
  end
  return nil
end

-- Every key that resolving `edge_id` for this child may touch, by the names of
-- ff_resolve_dependency; the lane and the attempt come from the child's record.
function dependency.keys(tag, flow_id, child_eid, upstream_eid, edge_id)
  local front = dependency.front(tag, child_eid)
  local prefix = flow.prefix(tag, flow_id)
  local lane_id = text.either(record.peek(front .. ":core", "lane_id"), "default")
  local index = text.either(record.peek(front .. ":core", "current_attempt_index"), "0")
  return {
    exec_core = front .. ":core",
    deps_meta = front .. ":deps:meta",
    unresolved = front .. ":deps:unresolved",
    dep = front .. ":dep:" .. edge_id,
    eligible = lane.index(tag, lane_id, "eligible"),
    terminal = lane.index(tag, lane_id, "terminal"),
    blocked = lane.index(tag, lane_id, "blocked:dependencies"),
    attempt = attempt.key(tag, child_eid, index),
    stream_meta = "ff:stream:" .. tag .. ":" .. child_eid .. ":" .. index .. ":meta",
    payload = front .. ":payload",
    upstream_result = dependency.front(tag, upstream_eid) .. ":result",
    edgegroup = prefix .. ":edgegroup:" .. child_eid,
    incoming = prefix .. ":in:" .. child_eid,
    pending_cancel_groups = lane.partition_index(tag, "pending_cancel_groups"),
  }
end

-- ── applying ────────────────────────────────────────────────────────────────────────────────────

-- What one more dependency changes: the child's counters, its group, and whether it is held back.
-- Answers a plan for `dependency.apply`, or nil and a refusal. Needs k.exec_core, deps_meta,
-- edgegroup (or nil).
function dependency.applying(k, core, a)
  local meta = record.fields(k.deps_meta, "unsatisfied_required_count")
  local plan = { open = number.floor(meta.unsatisfied_required_count, 0) + 1, group = {} }
  local decided = false
  if text.set(k.edgegroup) then
    local group = record.read(k.edgegroup)
    plan.group, plan.repeats = edge_group.grow(group, a.upstream_eid)
    decided = edge_group.counted(group) and group.group_state == "satisfied"
  end
  plan.holds = core.lifecycle_phase == "runnable" and core.terminal_outcome == "none"
    and not decided
  local home = lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
  if plan.holds and home then
    plan.home = lane.index(text.tag(k.exec_core), lane.of(core), home)
    return plan, guard.mismatch(plan.home, "zset")
  end
  return plan
end

-- Holds the child back. A delay stays on its record and an operator's hold is remembered there;
-- both come into force again when the child is released.
local function hold(k, core, a, plan)
  local more = { "last_transition_at", a.now_ms, "last_mutation_at", a.now_ms }
  if core.eligibility_state == "blocked_by_operator" then
    text.append(more,
      { "held_by_operator", "1", "held_detail", text.present(core.blocking_detail, "") })
  end
  local detail = number.digits(plan.open) .. " dep(s) unresolved incl " .. a.edge_id
  local vector = state.waiting_children(detail,
    text.present(core.attempt_state, "pending_first_attempt"))
  state.put(k.exec_core,
    state.with(vector, { ownership_state = text.present(core.ownership_state, "unowned") }), more)
  lane.move(text.present(core.execution_id, ""), { n = 2, k.eligible, plan.home }, k.blocked,
    number.floor(core.created_at, 0))
end

-- Records the dependency `a` (flow_id, edge_id, upstream_eid, graph_revision, dependency_kind,
-- data_passing_ref, now_ms) on the child and holds it back if the plan says so.
function dependency.apply(k, core, a, plan)
  local dep = {
    "edge_id", a.edge_id, "flow_id", a.flow_id, "upstream_execution_id", a.upstream_eid,
    "downstream_execution_id", text.present(core.execution_id, ""),
    "dependency_kind", text.present(a.dependency_kind, "success_only"), "state", "unsatisfied",
    "data_passing_ref", text.present(a.data_passing_ref, ""), "last_resolved_at", "",
  }
  if plan.repeats then
    text.append(dep, { "repeats_upstream", "1" })
  end
  record.write(k.dep, dep)
  call("SADD", k.unresolved, a.edge_id)
  call("SADD", k.all_edges, a.edge_id)
  record.write(k.deps_meta, {
    "unsatisfied_required_count", plan.open, "flow_id", a.flow_id,
    "last_flow_graph_revision", text.present(a.graph_revision, ""),
    "last_dependency_update_at", a.now_ms,
  })
  record.write(text.present(k.edgegroup, ""), plan.group)
  if plan.holds then
    hold(k, core, a, plan)
  end
end

-- Announces the end of an upstream once more when an edge from it is applied only now, so that the
-- edge need not wait to be found. A push is a hint; nothing here can fail.
function dependency.announce_if_ended(core_key, a)
  local upstream = dependency.front(text.tag(core_key), a.upstream_eid) .. ":core"
  local outcome = dependency.outcome_of({
    lifecycle_phase = record.peek(upstream, "lifecycle_phase"),
    terminal_outcome = record.peek(upstream, "terminal_outcome"),
  })
  if outcome then
    completion.announce(a.upstream_eid, a.flow_id, outcome)
  end
end

-- The verdict over the dependencies of a runnable child. Needs k.exec_core, deps_meta.
function dependency.standing(k, core)
  if text.set(core.unsealed) then
    return "blocked_by_dependencies"
  end
  local group = edge_group.of_child(k.exec_core, core)
  if edge_group.counted(group) and edge_group.fired(group) then
    return group.group_state == "impossible" and "impossible" or "eligible"
  end
  local meta = record.fields(k.deps_meta, "impossible_required_count", "unsatisfied_required_count")
  if number.either(meta.impossible_required_count, 0) > 0 then
    return "impossible"
  end
  if number.either(meta.unsatisfied_required_count, 0) > 0 then
    return "blocked_by_dependencies"
  end
  return "eligible"
end

-- ── releasing ───────────────────────────────────────────────────────────────────────────────────

-- Where a child goes once nothing blocks it any more: a delay that still runs and an operator's
-- hold outlive the wait for its dependencies. Needs k.exec_core, blocked, eligible. Answers a
-- plan for `dependency.release`, or nil and a refusal.
function dependency.releasing(k, core, now)
  local attempt_state = text.either(core.attempt_state, "none")
  if attempt_state == "none" then
    attempt_state = "pending_first_attempt"
  end
  local plan = { vector = state.eligible(attempt_state), to = k.eligible, more = {} }
  plan.score = lane.eligible_score(core)
  local delay_until = number.either(core.delay_until, 0)
  local own_lane = function(name)
    return lane.index(text.tag(k.exec_core), lane.of(core), name)
  end
  if core.held_by_operator == "1" then
    plan.vector = state.held("blocked_by_operator", "paused_by_operator",
      text.present(core.held_detail, ""), attempt_state)
    plan.to, plan.score = own_lane("blocked:operator"), number.finite(now) or 0
    plan.more = { "held_by_operator", "", "held_detail", "" }
  elseif delay_until > number.now() then
    local reason = attempt_state == "pending_retry_attempt" and "waiting_for_retry_backoff"
      or "waiting_for_delay"
    plan.vector = state.delayed(reason, "delayed until " .. core.delay_until, attempt_state)
    plan.to, plan.score = own_lane("delayed"), delay_until
  end
  state.with(plan.vector, {
    lifecycle_phase = text.either(core.lifecycle_phase, "runnable"),
    ownership_state = text.either(core.ownership_state, "unowned"),
  })
  return plan, guard.mismatch(plan.to, "zset")
end

function dependency.release(k, id, plan, now)
  state.put(k.exec_core, plan.vector,
    text.append({ "last_transition_at", now, "last_mutation_at", now }, plan.more))
  lane.move(id, { k.blocked }, plan.to, plan.score)
end

-- Whether the end of a dependency may release this child. While its flow is still being submitted
-- nothing does; the seal will.
local function releasable(core)
  return not text.set(core.unsealed) and core.lifecycle_phase == "runnable" and core.ownership_state == "unowned"
    and core.terminal_outcome == "none" and core.eligibility_state == "blocked_by_dependencies"
end

-- ── skipping ────────────────────────────────────────────────────────────────────────────────────

local HOME_OF_PHASE = { active = "active", suspended = "suspended" }

-- Everything a child leaves behind when it is skipped, all keys checked: the plan for
-- `dependency.skip`, or nil and a refusal. A child may be skipped in any phase, so its lease or
-- its suspension ends with it.
function dependency.skipping(k, core)
  local tag, id = text.tag(k.exec_core), text.present(core.execution_id, "")
  local front = k.exec_core:sub(1, -6)
  local home = HOME_OF_PHASE[core.lifecycle_phase]
    or lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
  local plan = {
    id = id,
    core = core,
    home = home and lane.index(tag, lane.of(core), home),
    deadline = lane.partition_index(tag, "execution_deadline"),
  }
  local checks = { { plan.home, "zset" }, { plan.deadline, "zset" } }
  if core.lifecycle_phase == "active" then
    plan.lease = {
      exec_core = k.exec_core,
      lease_current = front .. ":lease:current",
      lease_history = front .. ":lease:history",
      lease_expiry = lane.partition_index(tag, "lease_expiry"),
      attempt_timeout = lane.partition_index(tag, "attempt_timeout"),
      worker_leases = lane.worker_leases(tag, core.current_worker_instance_id),
    }
    text.append(checks, {
      { plan.lease.lease_history, "stream" }, { plan.lease.lease_expiry, "zset" },
      { plan.lease.attempt_timeout, "zset" }, { plan.lease.worker_leases, "set" },
    })
  end
  local refused = guard.any_mismatch(checks)
  if not refused and core.lifecycle_phase == "suspended" then
    local key = front .. ":suspension:current"
    plan.timeout = lane.partition_index(tag, "suspension_timeout")
    refused = guard.any_mismatch({ { plan.timeout, "zset" }, { key, "hash" } })
    if not refused then
      plan.suspension, refused = suspension.closing(key, {})
    end
  end
  if refused then
    return nil, refused
  end
  return plan
end

local RUNNING = { running_attempt = true, attempt_interrupted = true }

-- Ends a child whose dependencies cannot be met, and announces that.
function dependency.skip(k, plan, now)
  local core, id = plan.core, plan.id
  local attempt_state = core.attempt_state == "" and "" or "none"
  if RUNNING[core.attempt_state] then
    attempt_state = "attempt_terminal"
    attempt.finish(k.attempt, "ended_cancelled", now,
      { "failure_reason", "dependency_impossible" })
    stream.close(k.stream_meta, "dependency_impossible", number.finite(now))
  end
  local more = { "completed_at", now, "last_transition_at", now, "last_mutation_at", now }
  if plan.lease then
    lease.history(plan.lease.lease_history, "released", lease.EVENT.released,
      lease.current(core, now, "dependency_impossible"))
    lease.release(plan.lease, id, core)
    text.append(more, lease.RELEASED)
  end
  if plan.suspension then
    suspension.close(plan.suspension, { reason = "dependency_impossible" }, number.finite(now))
    call("ZREM", plan.timeout, id)
    text.append(more, { "current_suspension_id", "", "current_waitpoint_id", "" })
  end
  state.put(k.exec_core, state.terminal("skipped", attempt_state), more)
  lane.move(id, { n = 3, k.blocked, k.eligible, plan.home }, k.terminal, number.finite(now))
  call("ZREM", plan.deadline, id)
  completion.announce(core.execution_id, core.flow_id, "skipped")
end

-- ── resolving ───────────────────────────────────────────────────────────────────────────────────

-- An edge of an all-of child: the child's own counters decide, and one failure is enough.
local function judge_all_of(c)
  local open = number.floor(c.meta.unsatisfied_required_count, 0) - 1
  local plan = {
    meta = { "unsatisfied_required_count", open, "last_dependency_update_at", c.now },
    group = {},
  }
  local counted = c.outcome == "success" and "succeeded" or "failed"
  if c.group then
    plan.group = { counted, edge_group.counts(c.group)[counted] + 1 }
  end
  if c.outcome == "success" then
    plan.word, plan.releases = "satisfied", open == 0
    if c.group and open == 0 and c.group.group_state ~= "impossible" then
      text.append(plan.group, { "group_state", "satisfied" })
    end
    return plan
  end
  plan.word = "impossible"
  text.append(plan.meta, {
    "impossible_required_count", number.floor(c.meta.impossible_required_count, 0) + 1,
  })
  if c.group then
    text.append(plan.group, { "group_state", "impossible" })
  end
  return plan
end

-- The cancel debt of a group that fires now: the siblings it no longer needs, and the index entry
-- without which nobody would come to pay (DebtHasNote).
local function owe_siblings(k, a, plan)
  local key_flow, key_child = flow.parts_of_group(k.edgegroup)
  local flow_id, child_eid = text.either(a.flow_id, key_flow), text.either(a.downstream_eid, key_child)
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
  plan.debt = {
    index = text.either(k.pending_cancel_groups, lane.partition_index(tag, "pending_cancel_groups")),
    tuple = flow_id .. "|" .. child_eid,
  }
end

-- An edge of an any-of or quorum child: the group's counters decide.
local function judge_group(c, k, a)
  local word, fields = edge_group.count(c.group, c.dep, c.outcome, c.declared, c.now)
  if not word then
    return nil, fields
  end
  local plan = { word = word, group = fields, meta = {}, releases = word == "satisfied" }
  local fires = word == "satisfied" or word == "impossible"
  if fires and c.group.on_satisfied == "cancel_remaining" then
    owe_siblings(k, a, plan)
    return plan, plan.debt and guard.mismatch(plan.debt.index, "set")
  end
  return plan
end

local function declared_edges(k)
  local _, child_eid = flow.parts_of_group(k.edgegroup)
  local key = text.either(k.incoming,
    child_eid and k.edgegroup:match("^(.-):edgegroup:") .. ":in:" .. child_eid)
  local size = key and redis.pcall("SCARD", key)
  return type(size) == "number" and size or 0
end

-- What is known before an edge is judged; nil and the reply when there is nothing to judge.
local function case(k, a)
  local dep = record.read(k.dep)
  if not dep then
    return nil, err("invalid_dependency")
  end
  if dependency.RESOLVED[dep.state] then
    return nil, ok("already_resolved")
  end
  if not OUTCOMES[a.upstream_outcome] then
    return nil, err("invalid_input",
      "upstream_outcome must be one of success, failed, cancelled, expired, skipped")
  end
  local _, refused = number.require_whole(a.now_ms, "now_ms")
  if refused then
    return nil, refused
  end
  local group = text.set(k.edgegroup) and record.read(k.edgegroup) or nil
  return {
    dep = dep,
    group = group,
    core = record.read(k.exec_core),
    meta = record.read(k.deps_meta) or {},
    declared = edge_group.counted(group) and declared_edges(k) or 0,
    outcome = a.upstream_outcome,
    now = a.now_ms,
  }
end

-- What the verdict does to the child: `plan.release` or `plan.skip`, nil and a refusal when a key
-- on that way is foreign.
local function follow_up(k, c, plan)
  local core, refused = c.core, nil
  if not core then
    return plan
  end
  if plan.word == "impossible" and core.terminal_outcome == "none" then
    if text.set(core.current_attempt_index) and text.set(core.execution_id) then
      local tag = text.tag(k.exec_core)
      k.attempt = attempt.key(tag, core.execution_id, core.current_attempt_index)
      k.stream_meta = stream.meta_of_current_attempt(k.exec_core, core)
    end
    refused = RUNNING[core.attempt_state] and (guard.missing(k, "attempt")
      or guard.any_mismatch({ { k.attempt, "hash" }, { k.stream_meta, "hash" } }))
    if not refused then
      plan.skip, refused = dependency.skipping(k, core)
    end
  elseif plan.releases and releasable(core) then
    plan.release, refused = dependency.releasing(k, core, c.now)
  end
  plan.copies = c.outcome == "success" and plan.word == "satisfied"
    and core.terminal_outcome == "none" and text.set(c.dep.data_passing_ref)
    and text.set(k.payload) and text.set(k.upstream_result) and k.payload ~= k.upstream_result
  return plan, refused or (plan.copies and guard.mismatch(k.payload, "string")) or nil
end

local KINDS = {
  exec_core = "hash", deps_meta = "hash", unresolved = "set", dep = "hash", eligible = "zset",
  terminal = "zset", blocked = "zset", upstream_result = "string", edgegroup = "hash",
  incoming = "set", pending_cancel_groups = "set",
}

-- Resolves one edge of a child. Answers the reply of ff_resolve_dependency, and `released` or
-- `skipped` when the child became eligible or ended. Needs all its keys in `k`;
-- `a` = { edge_id, upstream_outcome, now_ms, flow_id, downstream_eid }. Never raises, so that many
-- edges can be resolved in one call.
function dependency.resolve(k, a)
  for _, name in ipairs({ "exec_core", "deps_meta", "unresolved", "dep", "eligible", "terminal",
    "blocked", "upstream_result", "edgegroup", "incoming", "pending_cancel_groups" }) do
    local refused = guard.mismatch(k[name], KINDS[name])
    if refused then
      return refused
    end
  end
  local c, answer = case(k, a)
  if not c then
    return answer
  end
  local plan, refused
  if edge_group.counted(c.group) then
    plan, refused = judge_group(c, k, a)
  else
    plan = judge_all_of(c)
  end
  if not refused then
    plan, refused = follow_up(k, c, plan)
  end
  if refused then
    return refused
  end
  -- write; nothing below can fail
  record.write(k.dep, {
    "state", c.outcome == "success" and "satisfied" or "impossible", "last_resolved_at", c.now,
  })
  call("SREM", k.unresolved, text.present(a.edge_id, ""))
  record.write(k.deps_meta, plan.meta)
  record.write(text.present(k.edgegroup, ""), plan.group)
  if plan.debt then
    call("SADD", plan.debt.index, plan.debt.tuple)
  end
  local mark = ""
  if plan.copies and call("COPY", k.upstream_result, k.payload, "REPLACE") == 1 then
    mark = "data_injected"
  end
  if plan.skip then
    dependency.skip(k, plan.skip, c.now)
    return ok(plan.word, "child_skipped"), "skipped"
  end
  if plan.release then
    dependency.release(k, text.present(c.core.execution_id, ""), plan.release, c.now)
  end
  local eligible = plan.release and plan.release.vector.eligibility_state == "eligible_now"
  return ok(plan.word, mark), eligible and "released" or nil
end
