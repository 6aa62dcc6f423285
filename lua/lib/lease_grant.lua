-- Granting and renewing a lease: its terms, its record, and the claim grant that it spends.

-- The terms of a new lease, as texts: everything that its record, the core, the attempt and the
-- history store about it. `at` is the time of the grant, `is_first` says that no lease was lost
-- before. `a` has worker_id, worker_instance_id, lane, lease_id; `attempt_id` is the attempt that
-- will run under it; `renew_within` defaults to two thirds of the time to live.
function lease.terms(core, a, attempt_id, now, ttl, renew_within)
  local epoch = math.max(0, number.floor(core.current_lease_epoch, 0)) + 1
  return {
    at = number.digits(now),
    lease_id = a.lease_id or "",
    lease_epoch = number.digits(epoch),
    attempt_id = attempt_id or "",
    worker_id = a.worker_id or "",
    worker_instance_id = a.worker_instance_id or "",
    lane = a.lane or "",
    is_first = epoch == 1 and not text.set(core.lease_revoked_at)
      and not text.set(core.lease_expired_at),
    expires_at = number.digits(now + ttl),
    is_short = ttl < push.SLEEP_MS,
    renew_by = number.digits(now + (renew_within or math.floor(ttl * 2 / 3))),
  }
end

-- The same for the first lease of an execution on our own path: the record does not say when it is
-- to be renewed until it is. `taker` = { lease_id, attempt_id }, `a` names the worker.
function lease.first_terms(a, taker, now, ttl)
  return {
    at = number.digits(now),
    lease_id = taker.lease_id,
    lease_epoch = "1",
    attempt_id = taker.attempt_id,
    worker_id = a.worker_id,
    worker_instance_id = a.worker_instance_id,
    lane = a.lane,
    is_first = true,
    expires_at = number.digits(now + ttl),
    is_short = ttl < push.SLEEP_MS,
  }
end

-- Grants the lease `held` and makes the execution active: spends the claim grant, and clears what
-- the record says about a lost lease; see lease.start for the rest. `more` = further core fields as
-- texts. The caller writes the lease record and the event, where there are to be any.
function lease.grant(k, id, held, more, stale_keys)
  if not guard.found_missing(k.claim_grant) then
    call("DEL", k.claim_grant)
  end
  if not held.is_first then
    text.append(more, lease.CLEAR_LOST)
  end
  text.append(more,
    { "lease_last_renewed_at", held.at, "lease_renewal_deadline", held.renew_by })
  lease.start(k, k.exec_core, id, held, stale_keys, unpack(more))
end

-- Writes the state vector with the core's lease fields and `...` (field, value, … as texts), and
-- moves the execution from the eligible index and from `stale_keys` to the active one. Needs
-- k.eligible, active, lease_expiry, worker_leases.
function lease.start(k, core_key, id, held, stale_keys, ...)
  local at, expires_at = held.at, held.expires_at
  state.write(core_key, state.active(),
    "current_lease_id", held.lease_id, "current_lease_epoch", held.lease_epoch,
    "current_worker_id", held.worker_id,
    "current_worker_instance_id", held.worker_instance_id,
    "current_lane", held.lane,
    "lease_acquired_at", at, "lease_expires_at", expires_at,
    "last_transition_at", at, "last_mutation_at", at,
    ...)
  lane.move(id, stale_keys, k.active, expires_at, k.eligible)
  call("ZADD", k.lease_expiry, expires_at, id)
  if held.is_short then push.due(k.lease_expiry, tonumber(expires_at)) end
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

-- Writes a renewal to the lease record, and the whole record if it was lost.
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

-- Removes the record of an earlier lease.
function lease.remove_record(key)
  if not guard.found_missing(key) then
    call("DEL", key)
  end
end

-- The lease record after a grant: new, and without a time to live until it is renewed.
function lease.write_record(key, id, held)
  lease.remove_record(key)
  call("HSET", key,
    "lease_id", held.lease_id, "lease_epoch", held.lease_epoch, "execution_id", id,
    "attempt_id", held.attempt_id, "worker_id", held.worker_id,
    "worker_instance_id", held.worker_instance_id, "acquired_at", held.at,
    "expires_at", held.expires_at, "last_renewed_at", held.at,
    "renewal_deadline", held.renew_by)
end

-- Whether exactly the lease that a call requests was granted before and is still valid: the reply
-- was lost and the call is repeated. `lease_id` is a.lease_id unless given.
function lease.already_granted(core, a, now, lease_id)
  lease_id = lease_id or a.lease_id
  return core.lifecycle_phase == "active" and core.ownership_state == "leased"
    and text.set(lease_id) and core.current_lease_id == lease_id
    and core.current_worker_id == a.worker_id
    and core.current_worker_instance_id == a.worker_instance_id
    and not lease.lapsed(core, now)
end

-- The refusal of a claim grant that does not belong to `worker_id`, else nil. Any instance of the
-- worker may use it.
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
