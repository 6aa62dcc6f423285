-- Creates an execution and its index entries, once: a known idempotency key or execution id answers
-- DUPLICATE. An execution whose delay has passed is eligible at once, whatever index the caller
-- passed.
-- Keys: exec_core (hash), payload (string), policy (string), tags (hash), scheduling (zset: lane
--   eligible or delayed), idempotency (string; empty or ff:noop:… for none),
--   execution_deadline (zset), all_executions (set)
-- Arguments: execution_id, namespace, lane_id, execution_kind, priority, creator_identity,
--   policy_json, input_payload, delay_until, dedup_ttl_ms, tags_json, execution_deadline_at,
--   partition_id
-- Replies: OK, DUPLICATE
-- Errors: invalid_input, invalid_policy_json, invalid_capabilities
-- Bound: 23 + 1 * n
-- Keeps: VectorWhole, OneHome, RepeatIsHarmless
define("ff_create_execution",
  { "exec_core!=hash", "payload!=string", "policy!=string", "tags!=hash", "scheduling!=zset",
    "idempotency=string", "execution_deadline!=zset", "all_executions!=set" },
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
    local plan
    plan, refused = creation.plan(k, a, number.now(), priority)
    if refused then return refused end
    -- The first write looks up the type of its own key.
    refused = guard.refusal(try("SADD", k.all_executions, id))
    if refused then return guard.named(refused, k.all_executions) end
    -- write; nothing below can fail
    creation.write(k, a, plan)
    -- Without a positive time to live the idempotency key is not stored.
    local ttl = dedups and math.floor(number.either(a.dedup_ttl_ms, 0)) or 0
    if ttl > 0 then
      call("SET", k.idempotency, id, "PX", number.digits(math.min(ttl, number.SPAN_MAX)))
    end
    return { 1, "OK", id, plan.row.public_state }
  end)
