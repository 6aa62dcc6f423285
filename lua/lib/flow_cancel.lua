-- Cancelling a flow: what is written to its record, which members the cancel covers, and the
-- members that still have to be cancelled (PendingCancelsIndexed).

-- Writes that a flow is cancelled.
function flow.cancel(core_key, reason, policy_name, now)
  record.write(core_key, {
    "public_flow_state", "cancelled", "cancelled_at", now,
    "cancel_reason", reason, "cancellation_policy", policy_name, "last_mutation_at", now,
  })
end

local COVERING = { cancel_all = true, cancel_pending = true, [""] = true }

-- Whether a flow was cancelled with a policy that covers its members: then nothing new may start
-- for any of them, and none runs again. `flow_only`, like any unknown policy, closes the flow and
-- leaves its members alone.
function flow.covers_members(core)
  return core.public_flow_state == "cancelled"
    and COVERING[text.present(core.cancellation_policy, "")] == true
end

-- The key of the record of the execution's flow, nil if it belongs to none.
function flow.core_of_member(core_key, core)
  if not text.set(core.flow_id) then
    return nil
  end
  return "ff:flow:" .. text.tag(core_key) .. ":" .. core.flow_id .. ":core"
end

-- Whether the cancel of its flow covers the execution: then nothing new may start for it, even
-- before it is cancelled itself.
function flow.cancel_covers(core_key, core)
  local flow_core = flow.core_of_member(core_key, core)
  if not flow_core then
    return false
  end
  local stored = record.fields(flow_core, "public_flow_state", "cancellation_policy")
  return flow.covers_members(stored)
end

-- The members of `found` = { waiting = members, started = members } that the cancel of their flow
-- ends: with cancel_all all of them, else those for which nothing runs.
function flow.covered(core, found)
  if not flow.covers_members(core) then
    return {}
  end
  return core.cancellation_policy == "cancel_all" and text.append(found.waiting, found.started)
    or found.waiting
end

-- The keys that list pending cancels, for a function that does not get them; nil and a refusal if
-- one is a key of another type.
function flow.pending_cancel_keys(core_key)
  local k = {
    pending_cancels = flow.prefix_of(core_key) .. ":pending_cancels",
    cancel_backlog = lane.partition_index(text.tag(core_key), "cancel_backlog"),
  }
  local refused = guard.any_mismatch({ { k.pending_cancels, "set" }, { k.cancel_backlog, "zset" } })
  return not refused and k or nil, refused
end

-- Records that these members have to be cancelled, by any engine from `due` on.
function flow.add_pending_cancels(k, flow_id, members, due)
  record.each_chunk("SADD", k.pending_cancels, members)
  call("ZADD", k.cancel_backlog, number.digits(due), flow_id)
  push.due(k.cancel_backlog, due)
end

-- The same for members that were found later: an earlier due time of the flow is kept.
function flow.add_found_cancels(k, flow_id, members, due)
  if #members > 0 then
    local since = call("ZSCORE", k.cancel_backlog, flow_id)
    flow.add_pending_cancels(k, flow_id, members, number.either(since, due))
  end
end
