-- Resets a terminal execution for another run. A flow member whose dependencies are not met waits
-- for them again: its failed edges and its group are re-armed. A member that the cancel of its flow
-- covers stays terminal, and a member whose flow is still being submitted waits for the seal. The
-- policy's deadline starts again; a pause of the last run is dropped. The execution is moved within
-- the lane of its record, whatever keys the caller passed.
-- Keys: exec_core (hash), terminal (zset), eligible (zset), lease_history (stream); for a skipped
--   flow member also blocked (zset), deps_meta (hash), unresolved (set), then one dep (hash) per
--   edge id
-- Arguments: execution_id, now_ms (ignored), edge_ids (any number)
-- Replies: OK
-- Errors: execution_not_found, execution_not_terminal, max_replays_exhausted,
--   flow_already_terminal, invalid_input
-- Bound: 37 + 6 * n
-- Keeps: LegalTransition, OneHome, GroupCounts, NoRunBeforeParents
local REPLAYS_ALLOWED = 10

-- What the new run starts with: core fields, and its deadline (nil without a limit). Answers nil
-- and a refusal if the index of deadlines is a key of another type.
local function beginning(core_key, core, stored, now)
  local span = policy.execution_deadline_ms(stored)
  local start = {
    fields = text.append({ "completed_at", "", "last_transition_at", now, "last_mutation_at", now },
      lease.CLEAR_LOST, text.set(core.held_as) and { "held_as", "", "held_detail", "" } or {}),
    deadlines = lane.partition_index(text.tag(core_key), "execution_deadline"),
    deadline_at = span and now + span,
  }
  local refused = span and guard.mismatch(start.deadlines, "zset")
  return not refused and start or nil, refused
end

-- Reads the flow of a member: whether it may start runs, and the index and the summary that have to
-- be updated when a member runs again.
local function flow_of(core_key, core)
  if not text.set(core.flow_id) then
    return {}
  end
  local tag = text.tag(core_key)
  local flow_core = flow.prefix(tag, core.flow_id) .. ":core"
  local index = lane.partition_index(tag, "flow_index")
  local summary = flow.prefix(tag, core.flow_id) .. ":summary"
  local known = record.peek(flow_core, "public_flow_state") ~= nil
  return {
    barred = known and flow.cancel_covers(core_key, core),
    index = known and not guard.mismatch(index, "set") and index,
    summary = known and not guard.mismatch(summary, "hash") and summary,
  }
end

define("ff_replay_execution",
  { "exec_core!=hash", "terminal!:zset", "eligible!:zset", "lease_history!:stream", "blocked",
    "deps_meta", "unresolved", "deps" },
  { "execution_id!", "now_ms", "edge_ids" },
  function(k, a, keys, args)
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase ~= "terminal" or text.set(core.purging_since) then
      return err("execution_not_terminal")
    end
    local replays, stored = number.floor(core.replay_count, 0) + 1, policy.read(k.exec_core)
    if replays - 1 >= policy.number(stored.max_replay_count, REPLAYS_ALLOWED) then
      return err("max_replays_exhausted")
    end
    local owner = flow_of(k.exec_core, core)
    if owner.barred then
      return err("flow_already_terminal")
    end
    local skipped = core.terminal_outcome == "skipped" and text.set(core.flow_id)
    local stale_keys, refused = lane.locate(k, core, { "terminal", "eligible" })
    if not stale_keys then return refused end
    local plan
    plan, refused = dependency.rearming(k, core, keys, args)
    if refused then
      return refused
    end
    local now, start = number.now(), nil
    start, refused = beginning(k.exec_core, core, stored, now)
    if not start then
      return refused
    end
    -- write; nothing below can fail
    dependency.rearm(plan, now)
    local waits = plan.open > 0 or text.set(core.unsealed)
    local vector = not waits and state.eligible("pending_replay_attempt")
      or state.waiting_children(number.digits(plan.open) .. " dep(s) unsatisfied after replay",
        "pending_replay_attempt")
    state.put(k.exec_core, vector, text.append({
      "pending_replay_attempt", "1", "replay_count", replays, "retry_count", 0,
      "lease_reclaim_count", 0, "failure_reason", "", "cancellation_reason", "", "cancelled_by", "",
      "delay_until", "",
      "pending_previous_attempt_index", text.present(core.current_attempt_index, ""),
    }, start.fields))
    lane.move(a.execution_id, text.append({ k.terminal }, stale_keys),
      waits and plan.blocked or k.eligible,
      waits and number.floor(core.created_at, 0) or lane.eligible_score(core))
    lease.history(k.lease_history, "replay_initiated", lease.EVENT.replay_initiated, {
      replay_count = replays,
      replay_type = skipped and "skipped_flow_member" or "normal",
      ts = now,
    })
    if start.deadline_at then
      call("ZADD", start.deadlines, number.digits(start.deadline_at), a.execution_id)
      push.due(start.deadlines, start.deadline_at)
    end
    call("DEL", (k.exec_core:gsub(":core$", ":result")))
    if owner.index then
      call("SADD", owner.index, core.flow_id)
    end
    if owner.summary then
      projection.forget(owner.summary)
    end
    return ok(plan.open)
  end)
