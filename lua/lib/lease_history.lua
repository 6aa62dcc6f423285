-- The history of a lease: a stream of events, trimmed to the newest.

-- About how many entries a lease history keeps.
local HISTORY_KEPT = 1000

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

-- Appends that the current lease of `core` was released because its run ended. As the first write
-- of a call it needs no lookup: the server raises for a key of another type, and nothing is
-- written.
function lease.add_released(key, core, reason, now)
  call("XADD", key, "MAXLEN", "~", "1000", "*", "event", "released",
    "lease_id", core.current_lease_id or "", "lease_epoch", core.current_lease_epoch or "",
    "attempt_index", core.current_attempt_index or "", "reason", reason,
    "ts", number.digits(now))
end

-- Appends that the lease `held` was acquired for a new attempt; `reason` only where one is given.
function lease.add_acquired(key, held, attempt_index, reason)
  if not reason then
    call("XADD", key, "MAXLEN", "~", "1000", "*", "event", "acquired",
      "lease_id", held.lease_id, "lease_epoch", held.lease_epoch, "attempt_id", held.attempt_id,
      "attempt_index", attempt_index, "worker_id", held.worker_id, "ts", held.at)
    return
  end
  call("XADD", key, "MAXLEN", "~", "1000", "*", "event", "acquired",
    "lease_id", held.lease_id, "lease_epoch", held.lease_epoch, "attempt_id", held.attempt_id,
    "attempt_index", attempt_index, "worker_id", held.worker_id, "reason", reason,
    "ts", held.at)
end

-- The fields of the lease history's events, in contract order.
lease.EVENT = {
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

-- The fields of an event about the current lease of `core`.
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

-- The fields of the event that the lease `held` continues an attempt.
function lease.acquired(held, attempt_index, reason)
  return {
    lease_id = held.lease_id, lease_epoch = held.lease_epoch, attempt_id = held.attempt_id,
    attempt_index = attempt_index, worker_id = held.worker_id, reason = reason, ts = held.at,
  }
end
