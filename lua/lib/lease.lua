-- Leases: who may act for an execution. A holder passes the whole fence triple (lease id, epoch,
-- attempt id); the server's clock decides whether the lease is still valid.

-- Core fields that are emptied when a lease is given up.
lease.RELEASED = {
  "current_lease_id", "", "current_worker_id", "", "current_worker_instance_id", "",
  "lease_expires_at", "", "lease_last_renewed_at", "", "lease_renewal_deadline", "",
}

-- Core fields about a lost lease, emptied when a new lease or run begins. Before and under the
-- first lease none was ever lost, and they are not there.
lease.CLEAR_LOST = { "lease_expired_at", "", "lease_revoked_at", "", "lease_revoke_reason", "" }

-- Core fields about a renewal, emptied with the lease. A first lease of our own path has them only
-- if it was renewed.
lease.NO_RENEWAL = { "lease_last_renewed_at", "", "lease_renewal_deadline", "" }

-- What of both the holder of the lease in `core` empties when its run ends.
local NOTHING = {}
local ALL = { "lease_expired_at", "", "lease_revoked_at", "", "lease_revoke_reason", "",
  "lease_last_renewed_at", "", "lease_renewal_deadline", "" }
function lease.clear_at_end(core)
  if core.lease_last_renewed_at then
    return core.current_lease_epoch == "1" and lease.NO_RENEWAL or ALL
  end
  return core.current_lease_epoch == "1" and NOTHING or lease.CLEAR_LOST
end

-- The refusal of a call that needs an active execution; its details show a holder whose reply was
-- lost that its own call was applied.
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

-- Nil if `fence` is the current, unexpired lease; else the refusal. Needs k.exec_core and
-- k.lease_history, because an expired lease is marked even though the call is refused.
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

-- No record holds this time, unless by hand: it counts as unreadable.
local NEVER = 1 / 0

-- Whether a lease is over. A lease that was marked expired stays so, even on a server whose clock
-- is behind that of its predecessor: it may be reclaimed at any time.
function lease.lapsed(core, now)
  local expires_at = tonumber(core.lease_expires_at)
  return core.ownership_state == "lease_expired_reclaimable"
    or not (expires_at and expires_at > now and expires_at < NEVER)
end

-- Whether the call's fence is the current, unexpired lease, without marking anything.
function lease.holds(core, a, now)
  return core.lifecycle_phase == "active" and core.ownership_state ~= "lease_revoked"
    and not lease.lapsed(core, now)
    and a.lease_id ~= nil and a.lease_id ~= "" and core.current_lease_id == a.lease_id
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

-- What the holder of a lease needs of the record to end or pause its run.
local HELD = {
  "lane_id", "lifecycle_phase", "ownership_state", "current_lane", "current_attempt_id",
  "current_attempt_index", "current_lease_id", "current_lease_epoch",
  "current_worker_instance_id", "lease_expires_at", "lease_last_renewed_at", "flow_id",
  "retry_count",
}

-- The record if the call comes from the holder of its lease, or from an operator for it: the fields
-- above, or all. Nil and a refusal for anybody else.
local function read_as_holder(k, a, now, whole)
  local core, refused
  if not whole then
    core, refused = record.select(k.exec_core, HELD)
  end
  if core and a.lease_epoch and a.attempt_id and a.lease_epoch ~= "" and a.attempt_id ~= ""
    and lease.holds(core, a, now) then
    return core
  elseif refused then
    return nil, refused
  end
  core = record.read(k.exec_core)
  if not core then
    return nil, err("execution_not_found")
  end
  local fence
  fence, refused = lease.holder(k, core, a, now, true)
  return fence and core or nil, refused
end

-- The start of a call by the holder of a lease (or an operator for it): reads the record, checks
-- the right to act, and points the keys at what the record names instead of what the caller read
-- earlier. `whole` = read the whole record. Answers { core, now, stale_keys }, or nil and a
-- refusal.
function lease.begin_call(k, a, lanes, whole)
  local act, refused = lease.begin_end(k, a, lanes, whole)
  refused = refused or attempt.locate(k, a.execution_id, act.core)
  if refused then
    return nil, refused
  end
  return act
end

-- The same for a caller that looks up k.attempt and k.stream_meta itself.
function lease.begin_end(k, a, lanes, whole)
  local now = number.now()
  local core, refused = read_as_holder(k, a, now, whole)
  if not core then
    return nil, refused
  end
  attempt.point(k, a.execution_id, core)
  local stale_keys
  stale_keys, refused = lane.locate(k, core, lanes)
  if not stale_keys then
    return nil, refused
  end
  return { core = core, now = now, stale_keys = stale_keys }
end

-- The holder gives up its lease and its attempt pauses. `how` = { row = the new state, fields =
-- core fields, cause = the reason written to the records, to and score = the lane index to wait in
-- }.
function lease.give_up(k, id, act, how)
  local core, now = act.core, act.now
  state.put(k.exec_core, how.row,
    text.append({ "last_transition_at", now, "last_mutation_at", now }, lease.RELEASED,
      attempt.time_left(k, id, now), how.fields))
  attempt.pause(k.attempt, how.cause, now)
  lease.release(k, id, core)
  lane.move(id, text.append({ k.active }, act.stale_keys), how.to, how.score)
  lease.history(k.lease_history, "released", lease.EVENT.released_for_later,
    lease.current(core, now, how.cause))
end

-- Marks a lapsed lease reclaimable, once. Its index entries and its record stay until it is
-- reclaimed. Answers nil, or the refusal of a key of another type (nothing written then).
function lease.mark_expired(k, core, now, history_maxlen)
  if core.ownership_state == "lease_expired_reclaimable" then
    return nil
  end
  local meta, refused = lease.stream_to_close(k, core)
  if refused then
    return refused
  end
  -- write; nothing below can fail
  lease.write_expired(k, core, meta, now, history_maxlen)
  return nil
end

-- The meta record of the output stream that closes when a lease expires, nil without one; or nil
-- and the refusal of a key of another type.
function lease.stream_to_close(k, core)
  local meta = stream.meta_of_current_attempt(k.exec_core, core)
  local refused = guard.any_mismatch({ { k.lease_history, "stream" }, { meta, "hash" } })
  return not refused and meta or nil, refused
end

-- Writes that a lease has expired; `meta` comes from lease.stream_to_close.
function lease.write_expired(k, core, meta, now, history_maxlen)
  state.put(k.exec_core,
    state.ownerless(core, "lease_expired_reclaimable", "lease expired, awaiting reclaim"),
    { "lease_expired_at", now, "last_mutation_at", now })
  lease.history(k.lease_history, "expired", lease.EVENT.expired, lease.current(core, now),
    history_maxlen)
  stream.close_if_open(meta, "lease_expired", now)
end

-- Removes `id` from the set of the holder that the record names, whatever key the caller passed.
function lease.leave_holder(k, id, core)
  local holder = core.current_worker_instance_id
  if holder then
    local held = lane.worker_leases(text.tag(k.exec_core), holder)
    if held ~= k.worker_leases and not guard.mismatch(held, "set") then
      call("SREM", held, id)
    end
  end
end

-- Releases a lease: its record, its deadlines and the holder's set. The caller writes the state
-- vector with lease.RELEASED, moves the lane index and records the event.
function lease.release(k, id, core)
  lease.remove_record(k.lease_current)
  call("ZREM", k.lease_expiry, id)
  call("SREM", k.worker_leases, id)
  if not guard.found_missing(k.attempt_timeout) then
    call("ZREM", k.attempt_timeout, id)
  end
  lease.leave_holder(k, id, core)
end
