-- Cancelling a flow: what its record says then, whom the cancel covers, and which cancels of members
-- are owed until somebody pays them (DebtHasNote).

-- Writes that a flow is cancelled.
function flow.cancel(core_key, reason, policy_name, now)
  record.write(core_key, {
    "public_flow_state", "cancelled", "cancelled_at", now,
    "cancel_reason", reason, "cancellation_policy", policy_name, "last_mutation_at", now,
  })
end

local COVERING = { cancel_all = true, cancel_pending = true, [""] = true }

-- Whether a flow was cancelled in a way that covers its members: then nothing new may start for any
-- of them, and none runs again. `flow_only`, like any other word, closes the flow and lets its
-- members be.
function flow.covers_members(core)
  return core.public_flow_state == "cancelled"
    and COVERING[text.present(core.cancellation_policy, "")] == true
end

-- Those of `found` = { waiting = members, started = members } whom the cancel of their flow ends:
-- with cancel_all everyone, else those for whom nothing runs.
function flow.covered(core, found)
  if not flow.covers_members(core) then
    return {}
  end
  return core.cancellation_policy == "cancel_all" and text.append(found.waiting, found.started)
    or found.waiting
end

-- The keys under which cancels are owed, for a function that is not given them; nil and a refusal
-- when one holds something foreign.
function flow.debt_keys(core_key)
  local k = {
    pending_cancels = flow.prefix_of(core_key) .. ":pending_cancels",
    cancel_backlog = lane.partition_index(text.tag(core_key), "cancel_backlog"),
  }
  local refused = guard.any_mismatch({ { k.pending_cancels, "set" }, { k.cancel_backlog, "zset" } })
  return not refused and k or nil, refused
end

-- Notes that the cancels of these members are owed, and may be paid by anyone from `due` on.
function flow.owe_cancels(k, flow_id, members, due)
  record.each_chunk("SADD", k.pending_cancels, members)
  call("ZADD", k.cancel_backlog, number.digits(due), flow_id)
end

-- The same for members that were found later: what is owed already is not put off.
function flow.owe_more_cancels(k, flow_id, members, due)
  if #members > 0 then
    local since = call("ZSCORE", k.cancel_backlog, flow_id)
    flow.owe_cancels(k, flow_id, members, number.either(since, due))
  end
end
