-- Creating an execution: everything is checked first, then its record, payload, policy, tags and
-- index entries are written together. Shared by ff_create_execution and ff_submit_flow, so that
-- both write the same records.

local EMPTY_AT_FIRST = {
  "current_attempt_index", "current_attempt_id", "current_lease_id", "current_worker_id",
  "current_worker_instance_id", "started_at", "completed_at", "lease_acquired_at",
  "lease_expires_at", "lease_last_renewed_at", "lease_renewal_deadline", "lease_expired_at",
  "lease_revoked_at", "lease_revoke_reason", "current_suspension_id", "current_waitpoint_id",
  "pending_retry_reason", "pending_replay_reason", "pending_replay_requested_by",
  "pending_previous_attempt_index", "progress_pct", "progress_message", "progress_updated_at",
  "flow_id",
}

-- The optional numbers of the call, or nil and a refusal.
local function read_numbers(a)
  local delay_until, refused = number.optional_far(a.delay_until, "delay_until")
  if refused then return nil, refused end
  local deadline_at
  deadline_at, refused = number.optional_time(a.execution_deadline_at, "execution_deadline_at")
  if refused then return nil, refused end
  -- Without a positive time to live the idempotency key is not stored.
  local dedup_ttl_ms = math.floor(number.either(a.dedup_ttl_ms, 0))
  return {
    delay_until = delay_until,
    deadline_at = deadline_at,
    dedup_ttl_ms = math.min(dedup_ttl_ms, number.SPAN_MAX),
  }
end

local function core_fields(a, priority, now, delay_until, required, stored)
  local fields = {
    "execution_id", a.execution_id, "namespace", a.namespace, "lane_id", a.lane_id,
    "current_lane", a.lane_id, "execution_kind", a.execution_kind,
    "partition_id", a.partition_id, "priority", priority,
    "creator_identity", a.creator_identity, "total_attempt_count", 0,
    "current_lease_epoch", 0, "retry_count", 0, "replay_count", 0, "lease_reclaim_count", 0,
    "created_at", now, "last_transition_at", now, "last_mutation_at", now,
    "delay_until", delay_until or "",
  }
  for _, name in ipairs(EMPTY_AT_FIRST) do
    text.append(fields, { name, "" })
  end
  if required ~= "" then
    text.append(fields, { "required_capabilities", required })
  end
  return text.append(fields, policy.admission_fields(stored))
end

-- What an execution with the arguments `a` (those of ff_create_execution) will be, all checked: a
-- plan for `creation.write`, or nil and a refusal. Needs k.exec_core.
function creation.plan(k, a, now)
  local plan, refused = { now = now }, nil
  plan.priority, refused = lane.priority(a.priority, "priority")
  if not plan.priority then return nil, refused end
  local required, stored = capability.required_by(a.policy_json)
  if not required then return nil, stored end
  local numbers
  numbers, refused = read_numbers(a)
  if not numbers then return nil, refused end
  plan.required, plan.stored, plan.dedup_ttl_ms = required, stored, numbers.dedup_ttl_ms
  if numbers.delay_until and numbers.delay_until > now then
    plan.delay_until = numbers.delay_until
    plan.row = state.delayed("waiting_for_delay",
      "delayed until " .. number.digits(numbers.delay_until), "pending_first_attempt")
  else
    plan.row = state.eligible("pending_first_attempt")
  end
  plan.home = lane.index(text.tag(k.exec_core), a.lane_id,
    plan.delay_until and "delayed" or "eligible")
  plan.score = plan.delay_until or lane.score_of(now, plan.priority)
  local span = policy.execution_deadline_ms(stored)
  plan.deadline_at = numbers.deadline_at or (span and now + span)
  plan.tags = record.from_json(policy.object(text.json(a.tags_json)))
  return plan, guard.mismatch(plan.home, "zset")
end

-- Writes the records of what was planned; `more` = further core fields. Needs k.exec_core, payload,
-- policy, tags.
function creation.write_records(k, a, plan, more)
  local fields = core_fields(a, plan.priority, plan.now, plan.delay_until, plan.required,
    plan.stored)
  state.put(k.exec_core, plan.row, text.append(fields, more or {}))
  if a.input_payload ~= "" then call("SET", k.payload, a.input_payload) end
  if a.policy_json ~= "" then call("SET", k.policy, a.policy_json) end
  record.write(k.tags, plan.tags)
end

-- Writes what was planned, index entries included; `more` = further core fields. Needs k.exec_core,
-- payload, policy, tags, all_executions, execution_deadline.
function creation.write(k, a, plan, more)
  creation.write_records(k, a, plan, more)
  lane.move(a.execution_id, {}, plan.home, plan.score)
  call("SADD", k.all_executions, a.execution_id)
  if plan.deadline_at then
    call("ZADD", k.execution_deadline, number.digits(plan.deadline_at), a.execution_id)
  end
end
