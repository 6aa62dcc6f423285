-- Leases: who may act for an execution. A holder shows the whole fence triple (lease id, epoch,
-- attempt id); the server's clock decides whether the lease still stands.

-- How many entries a lease history keeps, about.
local HISTORY_KEPT = 1000

-- Core fields that are emptied when a lease is given up.
lease.RELEASED = {
  "current_lease_id", "", "current_worker_id", "", "current_worker_instance_id", "",
  "lease_expires_at", "", "lease_last_renewed_at", "", "lease_renewal_deadline", "",
}

-- Core fields that tell of a lost lease; emptied by whatever starts afresh.
lease.UNLOST = { "lease_expired_at", "", "lease_revoked_at", "", "lease_revoke_reason", "" }

-- The refusal of a call that needs an active execution; the details let a holder whose reply was
-- lost see that its own call had been applied.
function lease.not_active(core)
  return err("execution_not_active", core.terminal_outcome, core.current_lease_epoch,
    core.lifecycle_phase, core.current_attempt_id)
end

-- The fence of a call: { lease_id, lease_epoch, attempt_id }, or nil and a refusal. With
-- `may_override`, the source `operator_override` and no fence, it is the current one.
function lease.fence(core, a, may_override)
  local given = 0
  for _, part in ipairs({ "lease_id", "lease_epoch", "attempt_id" }) do
    if text.set(a[part]) then
      given = given + 1
    end
  end
  if given == 3 then
    return { lease_id = a.lease_id, lease_epoch = a.lease_epoch, attempt_id = a.attempt_id }
  end
  if given > 0 then
    return nil, err("partial_fence_triple")
  end
  if not may_override or a.source ~= "operator_override" then
    return nil, err("fence_required")
  end
  return {
    lease_id = core.current_lease_id or "",
    lease_epoch = core.current_lease_epoch or "",
    attempt_id = core.current_attempt_id or "",
  }
end

-- Nil when `fence` is the current, unexpired lease; else the refusal. Needs k.exec_core and
-- k.lease_history, because a lease found expired is marked so even though the call is refused.
function lease.validate(k, core, fence, now, history_maxlen)
  if core.lifecycle_phase ~= "active" then
    return lease.not_active(core)
  end
  if core.ownership_state == "lease_revoked" then
    return err("lease_revoked")
  end
  if lease.lapsed(core, now) then
    return lease.mark_expired(k, core, now, history_maxlen) or err("lease_expired")
  end
  if (core.current_lease_id or "") ~= fence.lease_id
    or (core.current_lease_epoch or "") ~= fence.lease_epoch
    or (core.current_attempt_id or "") ~= fence.attempt_id then
    return err("stale_lease")
  end
  return nil
end

-- Whether a lease is over. One that was marked so stays so, even on a server whose clock is behind
-- that of the one before: somebody may be taking the work back already.
function lease.lapsed(core, now)
  return core.ownership_state == "lease_expired_reclaimable"
    or number.either(core.lease_expires_at, 0) <= now
end

-- Whether the call's fence is the current, unexpired lease: asks without marking anything.
function lease.holds(core, a, now)
  return core.lifecycle_phase == "active" and core.ownership_state ~= "lease_revoked"
    and not lease.lapsed(core, now)
    and text.set(a.lease_id) and core.current_lease_id == a.lease_id
    and core.current_lease_epoch == a.lease_epoch and core.current_attempt_id == a.attempt_id
end

-- Fence and validation in one: the fence, or nil and a refusal.
function lease.holder(k, core, a, now, may_override, history_maxlen)
  local fence, refused = lease.fence(core, a, may_override)
  if not fence then
    return nil, refused
  end
  refused = lease.validate(k, core, fence, now, history_maxlen)
  if refused then
    return nil, refused
  end
  return fence
end

-- The opening of a call by the holder of a lease (or an operator in its name): the record, the
-- right to act, and the keys that the record names instead of those that the caller read earlier.
-- Answers { core, now, strays }, or nil and a refusal.
function lease.acting(k, a, lanes)
  local core = record.read(k.exec_core)
  if not core then
    return nil, err("execution_not_found")
  end
  local now = number.now()
  local fence, refused = lease.holder(k, core, a, now, true)
  if not fence then
    return nil, refused
  end
  refused = attempt.locate(k, a.execution_id, core)
  if refused then
    return nil, refused
  end
  local strays
  strays, refused = lane.locate(k, core, lanes)
  if not strays then
    return nil, refused
  end
  return { core = core, now = now, strays = strays }
end

-- The holder steps aside and its attempt pauses. `how` = { row = the state to be in, fields = core
-- fields, cause = what the records say about it, to and score = the lane index to wait in }.
function lease.step_aside(k, id, act, how)
  local core, now = act.core, act.now
  state.put(k.exec_core, how.row,
    text.append({ "last_transition_at", now, "last_mutation_at", now }, lease.RELEASED,
      attempt.time_left(k, id, now), how.fields))
  attempt.pause(k.attempt, how.cause, now)
  lease.release(k, id, core)
  lane.move(id, text.append({ k.active }, act.strays), how.to, how.score)
  lease.history(k.lease_history, "released", lease.EVENT.released_for_later,
    lease.current(core, now, how.cause))
end

-- Marks a lapsed lease reclaimable, once. Indexes and the lease record stay for whoever reclaims.
-- Answers nil, or the refusal of a foreign key (nothing written then).
function lease.mark_expired(k, core, now, history_maxlen)
  if core.ownership_state == "lease_expired_reclaimable" then
    return nil
  end
  local meta = stream.meta_of_current_attempt(k.exec_core, core)
  local refused = guard.any_mismatch({ { k.lease_history, "stream" }, { meta, "hash" } })
  if refused then
    return refused
  end
  -- write
  state.put(k.exec_core,
    state.ownerless(core, "lease_expired_reclaimable", "lease expired, awaiting reclaim"),
    { "lease_expired_at", now, "last_mutation_at", now })
  lease.history(k.lease_history, "expired", lease.EVENT.expired, lease.current(core, now),
    history_maxlen)
  stream.close_if_open(meta, "lease_expired", now)
  return nil
end

-- Appends one event to a lease history: its fields in the order of `names`, each taken from
-- `values`; a missing one is written as "".
function lease.history(key, event, names, values, maxlen)
  local flat = { "event", event }
  for _, name in ipairs(names) do
    flat[#flat + 1] = name
    flat[#flat + 1] = number.text(values[name])
  end
  call("XADD", key, "MAXLEN", "~", number.digits(maxlen or HISTORY_KEPT), "*", unpack(flat))
end

-- The fields of the lease history's events, in contract order.
lease.EVENT = {
  acquired = { "lease_id", "lease_epoch", "attempt_id", "attempt_index", "worker_id", "ts" },
  acquired_fresh_by_operator = {
    "lease_id", "lease_epoch", "attempt_id", "attempt_index", "worker_id", "reason", "ts",
  },
  acquired_resumed = {
    "lease_id", "lease_epoch", "attempt_index", "attempt_id", "worker_id", "reason", "ts",
  },
  expired = {
    "lease_id", "lease_epoch", "attempt_index", "attempt_id", "worker_id", "worker_instance_id",
    "ts",
  },
  revoked = {
    "lease_id", "lease_epoch", "attempt_index", "attempt_id", "worker_id", "worker_instance_id",
    "reason", "ts",
  },
  reclaimed = {
    "old_lease_epoch", "new_lease_id", "new_lease_epoch", "new_attempt_id", "new_attempt_index",
    "worker_id", "ts",
  },
  released = { "lease_id", "lease_epoch", "attempt_index", "reason", "ts" },
  released_for_later = {
    "lease_id", "lease_epoch", "attempt_index", "attempt_id", "reason", "ts",
  },
  replay_initiated = { "replay_count", "replay_type", "ts" },
}

-- What an event about the current lease of `core` says.
function lease.current(core, now, reason)
  return {
    lease_id = core.current_lease_id,
    lease_epoch = core.current_lease_epoch,
    attempt_index = core.current_attempt_index,
    attempt_id = core.current_attempt_id,
    worker_id = core.current_worker_id,
    worker_instance_id = core.current_worker_instance_id,
    reason = reason,
    ts = now,
  }
end

-- The terms of a new lease: everything that its record, the core, the attempt and the history say
-- about it. `a` has worker_id, worker_instance_id, lane, lease_id; `attempt_id` is the attempt
-- that will run under it; `renew_within` defaults to two thirds of the time to live.
function lease.terms(core, a, attempt_id, now, ttl, renew_within)
  return {
    now = now,
    lease_id = text.present(a.lease_id, ""),
    lease_epoch = math.max(0, number.floor(core.current_lease_epoch, 0)) + 1,
    attempt_id = text.present(attempt_id, ""),
    worker_id = text.present(a.worker_id, ""),
    worker_instance_id = text.present(a.worker_instance_id, ""),
    lane = text.present(a.lane, ""),
    expires_at = now + ttl,
    renew_by = now + (renew_within or math.floor(ttl * 2 / 3)),
  }
end

-- Grants the lease `held` and makes the execution active: spends the grant, writes the lease
-- record, the state vector with the core's lease fields and `more`, and moves it out of the
-- eligible index and of `strays` into the active one. Needs k.exec_core, claim_grant,
-- lease_current, eligible, active, lease_expiry, worker_leases. The caller records the event.
function lease.grant(k, id, held, more, strays)
  call("DEL", k.claim_grant)
  lease.write_record(k.lease_current, id, held)
  local fields = {
    "current_lease_id", held.lease_id, "current_lease_epoch", held.lease_epoch,
    "current_worker_id", held.worker_id,
    "current_worker_instance_id", held.worker_instance_id,
    "current_lane", held.lane,
    "lease_acquired_at", held.now, "lease_expires_at", held.expires_at,
    "lease_last_renewed_at", held.now, "lease_renewal_deadline", held.renew_by,
    "last_transition_at", held.now, "last_mutation_at", held.now,
  }
  state.put(k.exec_core, state.active(), text.append(fields, lease.UNLOST, more or {}))
  lane.move(id, text.append({ k.eligible }, strays or {}), k.active, held.expires_at)
  call("ZADD", k.lease_expiry, number.digits(held.expires_at), id)
  call("SADD", k.worker_leases, id)
end

-- The terms of the current lease after a renewal.
function lease.renewed(core, now, ttl)
  return {
    lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch,
    attempt_id = core.current_attempt_id, worker_id = core.current_worker_id,
    worker_instance_id = core.current_worker_instance_id,
    acquired_at = core.lease_acquired_at,
    renewed_at = now,
    expires_at = now + ttl,
    renew_by = now + math.floor(ttl * 2 / 3),
  }
end

-- Writes a renewal into the lease record, and the whole record where it was lost.
function lease.rewrite_record(key, id, held)
  local fields = {
    "last_renewed_at", held.renewed_at, "renewal_deadline", held.renew_by,
    "expires_at", held.expires_at,
  }
  if call("EXISTS", key) == 0 then
    text.append(fields, { "execution_id", id })
    for _, name in ipairs({ "lease_id", "lease_epoch", "attempt_id", "worker_id",
      "worker_instance_id", "acquired_at" }) do
      text.append(fields, { name, text.present(held[name], "") })
    end
  end
  record.write(key, fields)
end

-- The lease record as a grant leaves it: fresh, and without a time to live until it is renewed.
function lease.write_record(key, id, held)
  call("DEL", key)
  record.write(key, {
    "lease_id", held.lease_id, "lease_epoch", held.lease_epoch, "execution_id", id,
    "attempt_id", held.attempt_id, "worker_id", held.worker_id,
    "worker_instance_id", held.worker_instance_id, "acquired_at", held.now,
    "expires_at", held.expires_at, "last_renewed_at", held.now,
    "renewal_deadline", held.renew_by,
  })
end

-- What an `acquired` event says about the lease `held`.
function lease.acquired(held, attempt_index, reason)
  return {
    lease_id = held.lease_id, lease_epoch = held.lease_epoch, attempt_id = held.attempt_id,
    attempt_index = attempt_index, worker_id = held.worker_id, reason = reason, ts = held.now,
  }
end

-- Whether the very lease that a call asks for was granted before and still stands: the reply was
-- lost and the call is being repeated.
function lease.already_granted(core, a, now)
  return core.lifecycle_phase == "active" and core.ownership_state == "leased"
    and text.set(a.lease_id) and core.current_lease_id == a.lease_id
    and core.current_worker_id == a.worker_id
    and core.current_worker_instance_id == a.worker_instance_id
    and not lease.lapsed(core, now)
end

-- The refusal of a claim grant that does not fit `worker_id`, else nil. Which instance spends it
-- does not matter.
function lease.grant_refusal(grant_key, worker_id, now)
  local grant = record.fields(grant_key, "worker_id", "grant_expires_at")
  if grant.worker_id == nil or grant.worker_id ~= worker_id then
    return err("invalid_claim_grant")
  end
  if text.set(grant.grant_expires_at) and number.either(grant.grant_expires_at, 0) < now then
    return err("claim_grant_expired")
  end
  return nil
end

-- The record of the execution's flow, nil when it belongs to none.
function lease.flow_core(core_key, core)
  if not text.set(core.flow_id) then
    return nil
  end
  return "ff:flow:" .. text.tag(core_key) .. ":" .. core.flow_id .. ":core"
end

-- Whether the cancel of its flow covers the execution: then nothing new may start for it, even
-- though its own cancel has not arrived yet.
function lease.barred(core_key, core)
  local flow_core = lease.flow_core(core_key, core)
  if not flow_core then
    return false
  end
  local stored = record.fields(flow_core, "public_flow_state", "cancellation_policy")
  return flow.covers_members(stored)
end

-- Whether the lease of an execution is gone while it is still active.
function lease.is_lost(core)
  return core.lifecycle_phase == "active"
    and (core.ownership_state == "lease_expired_reclaimable"
      or core.ownership_state == "lease_revoked")
end

-- What taking over from a lost lease leans on: the record, why it was lost, how often before.
function lease.takeover(core, strays, now)
  return {
    core = core,
    now = now,
    strays = strays,
    reason = "lease_" .. text.present(core.ownership_state, ""),
    count = math.max(0, number.floor(core.lease_reclaim_count, 0)),
  }
end

-- The reclaim cap that the execution has reached, nil while it may still be taken over.
function lease.cap_reached(k, core, default_cap)
  local cap = policy.reclaim_cap(policy.read(k.exec_core), default_cap)
  return number.floor(core.lease_reclaim_count, 0) >= cap and cap or nil
end

-- Closes the attempt that lost its lease, and its stream.
function lease.close_lost(k, lost)
  if text.set(k.attempt) then
    attempt.finish(k.attempt, "interrupted_reclaimed", lost.now,
      { "failure_reason", lost.reason })
  end
  stream.close(k.stream_meta, "reclaimed", lost.now)
end

-- Ends an execution that was taken over too often.
function lease.end_at_cap(k, id, lost)
  call("DEL", k.claim_grant)
  lease.close_lost(k, lost)
  lease.history(k.lease_history, "released", lease.EVENT.released,
    lease.current(lost.core, lost.now, "max_reclaims_exceeded"))
  completion.finish(k, id, lost.core, {
    outcome = "failed",
    now = lost.now,
    from = text.append({ k.active }, lost.strays),
    fields = { "failure_reason", "max_reclaims_exceeded" },
  })
end

-- Takes `id` out of the set of the holder that the record names, whoever the caller took for it.
function lease.leave_holder(k, id, core)
  local holder = core.current_worker_instance_id
  if holder then
    local held = lane.worker_leases(text.tag(k.exec_core), holder)
    if held ~= k.worker_leases and not guard.mismatch(held, "set") then
      call("SREM", held, id)
    end
  end
end

-- Lets go of a lease: its record, its deadlines and the holder's set. The caller writes the state
-- vector with lease.RELEASED, moves the lane index and records the event.
function lease.release(k, id, core)
  call("DEL", k.lease_current)
  call("ZREM", k.lease_expiry, id)
  call("SREM", k.worker_leases, id)
  call("ZREM", k.attempt_timeout, id)
  lease.leave_holder(k, id, core)
end
