-- Creates an execution and indexes it, once: a known idempotency key or id answers DUPLICATE. One
-- whose delay lies in the past is eligible at once, whichever index the caller chose.
-- Keys: exec_core (hash), payload (string), policy (string), tags (hash), scheduling (zset: lane
--   eligible or delayed), idempotency (string; empty or ff:noop:… for none),
--   execution_deadline (zset), all_executions (set)
-- Arguments: execution_id, namespace, lane_id, execution_kind, priority, creator_identity,
--   policy_json, input_payload, delay_until, dedup_ttl_ms, tags_json, execution_deadline_at,
--   partition_id
-- Replies: OK, DUPLICATE
-- Errors: invalid_input, invalid_policy_json, invalid_capabilities
-- Bound: 22 + 1 * n
-- Keeps: VectorWhole, OneHome, RepeatIsHarmless
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
  local delay_until, refused = number.optional(a.delay_until, "delay_until")
  if refused then return nil, refused end
  local deadline_at
  deadline_at, refused = number.optional_span(a.execution_deadline_at, "execution_deadline_at")
  if refused then return nil, refused end
  -- A time to live that is no positive number means that the key is not kept.
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

define("ff_create_execution",
  { "exec_core!", "payload!", "policy!", "tags!:hash", "scheduling!:zset", "idempotency",
    "execution_deadline!:zset", "all_executions!:set" },
  { "execution_id!", "namespace!", "lane_id!", "execution_kind!", "priority",
    "creator_identity!", "policy_json!", "input_payload!", "delay_until!", "dedup_ttl_ms!",
    "tags_json!", "execution_deadline_at!", "partition_id!" },
  function(k, a)
    local priority, refused = lane.priority(a.priority, "priority")
    if not priority then return refused end
    local id = a.execution_id
    local dedups = text.set(k.idempotency) and not k.idempotency:find("^ff:noop:")
    local existing = dedups and call("GET", k.idempotency)
    if existing then return duplicate(existing) end
    if call("EXISTS", k.exec_core) == 1 then return duplicate(id) end
    local required, stored = capability.required_by(a.policy_json)
    if not required then return stored end
    local numbers
    numbers, refused = read_numbers(a)
    if not numbers then return refused end
    local now = number.now()
    local delayed = numbers.delay_until and numbers.delay_until > now
    local home = lane.index(text.tag(k.exec_core), a.lane_id, delayed and "delayed" or "eligible")
    refused = guard.mismatch(home, "zset")
    if refused then return refused end
    local span = policy.execution_deadline_ms(stored)
    local deadline_at = numbers.deadline_at or (span and now + span)
    local tags = record.from_json(policy.object(text.json(a.tags_json)))
    local row = delayed
      and state.delayed("waiting_for_delay",
        "delayed until " .. number.digits(numbers.delay_until), "pending_first_attempt")
      or state.eligible("pending_first_attempt")
    -- write; nothing below can fail
    state.put(k.exec_core, row,
      core_fields(a, priority, now, delayed and numbers.delay_until, required, stored))
    if a.input_payload ~= "" then call("SET", k.payload, a.input_payload) end
    if a.policy_json ~= "" then call("SET", k.policy, a.policy_json) end
    record.write(k.tags, tags)
    lane.move(id, {}, home,
      delayed and numbers.delay_until or lane.score_of(now, priority))
    call("SADD", k.all_executions, id)
    if deadline_at then
      call("ZADD", k.execution_deadline, number.digits(deadline_at), id)
    end
    if dedups and numbers.dedup_ttl_ms > 0 then
      call("SET", k.idempotency, id, "PX", number.digits(numbers.dedup_ttl_ms))
    end
    return ok(id, row.public_state)
  end)
