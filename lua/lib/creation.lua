-- Creating an execution: everything is checked first, then its record, payload, policy, tags and
-- index entries are written together. Shared by ff_create_execution and ff_submit_flow, so that
-- both write the same records. Fields that are empty at first are not written: a missing field
-- means the same to every reader.

local NOTHING = {}

-- The optional times of the call, and a refusal, each nil if there is none.
local function read_times(a)
  if a.delay_until == "" and a.execution_deadline_at == "" then return nil end
  local delay_until, refused = number.optional_far(a.delay_until, "delay_until")
  if refused then return nil, nil, refused end
  local deadline_at
  deadline_at, refused = number.optional_time(a.execution_deadline_at, "execution_deadline_at")
  return delay_until, deadline_at, refused
end

-- The tags of the call as { field, value, … }.
local function read_tags(a)
  if not text.set(a.tags_json) or a.tags_json == "{}" then return NOTHING end
  return record.from_json(policy.object(text.json(a.tags_json)))
end

-- The core fields that only some executions have, as texts.
local function optional_fields(plan, more)
  local fields = {}
  if plan.required ~= "" then
    text.append(fields, { "required_capabilities", plan.required })
  end
  if plan.delay_until then
    text.append(fields, { "delay_until", number.digits(plan.delay_until) })
  end
  return text.append(fields, policy.admission_fields(plan.stored), number.texts(more or NOTHING))
end

-- What an execution with the arguments `a` (those of ff_create_execution) will be, all checked: a
-- plan for `creation.write`, or nil and a refusal. Needs k.exec_core, tags, execution_deadline.
-- `priority` = that of lane.priority, if it was read already.
function creation.plan(k, a, now, priority)
  local refused
  if not priority then
    priority, refused = lane.priority(a.priority, "priority")
    if not priority then return nil, refused end
  end
  local required, stored = capability.required_by(a.policy_json)
  if not required then return nil, stored end
  local delay_until, deadline_at
  delay_until, deadline_at, refused = read_times(a)
  if refused then return nil, refused end
  if delay_until and delay_until <= now then delay_until = nil end
  local span = stored ~= policy.NONE and policy.execution_deadline_ms(stored)
  local plan = {
    now = now, priority = priority, required = required, stored = stored,
    delay_until = delay_until,
    deadline_at = deadline_at or (span and now + span) or nil,
    row = state.eligible("pending_first_attempt"),
    home = lane.index(text.tag(k.exec_core), a.lane_id, delay_until and "delayed" or "eligible"),
    score = delay_until or lane.score_of(now, priority),
    tags = read_tags(a),
  }
  if delay_until then
    plan.row = state.delayed("waiting_for_delay", "delayed until " .. number.digits(delay_until),
      "pending_first_attempt")
  end
  return plan, guard.mismatch(plan.home, "zset")
    or plan.tags[1] and guard.mismatch(k.tags, "hash")
    or plan.deadline_at and guard.mismatch(k.execution_deadline, "zset") or nil
end

-- Writes the records of what was planned; `more` = further core fields. Needs k.exec_core, payload,
-- policy, tags.
function creation.write_records(k, a, plan, more)
  local at = number.digits(plan.now)
  local further = NOTHING
  if more or plan.delay_until or plan.stored ~= policy.NONE then
    further = optional_fields(plan, more)
  end
  -- A short hash is searched from its start: what claims and ends read and write comes first.
  state.write(k.exec_core, plan.row,
    "last_transition_at", at, "last_mutation_at", at, "lane_id", a.lane_id,
    "total_attempt_count", "0", "current_lease_epoch", "0", "current_lane", a.lane_id,
    "execution_kind", a.execution_kind, "retry_count", "0",
    "execution_id", a.execution_id, "namespace", a.namespace, "partition_id", a.partition_id,
    "priority", number.digits(plan.priority), "creator_identity", a.creator_identity,
    "replay_count", "0", "lease_reclaim_count", "0", "created_at", at,
    unpack(further))
  if a.input_payload ~= "" then call("SET", k.payload, a.input_payload) end
  if a.policy_json ~= "" then call("SET", k.policy, a.policy_json) end
  if plan.tags[1] then record.write(k.tags, plan.tags) end
end

-- Writes what was planned, index entries included; `more` = further core fields. Needs k.exec_core,
-- payload, policy, tags, execution_deadline. The caller lists it in the set of all executions.
function creation.write(k, a, plan, more)
  creation.write_records(k, a, plan, more)
  lane.move(a.execution_id, NOTHING, plan.home, plan.score)
  if plan.deadline_at then
    call("ZADD", k.execution_deadline, number.digits(plan.deadline_at), a.execution_id)
    push.due(k.execution_deadline, plan.deadline_at)
  end
end
