-- Stores the progress of an execution for the holder of its lease. It does not renew the lease.
-- Keys: exec_core (hash)
-- Arguments: execution_id (not used), lease_id, lease_epoch, progress_pct (empty: leave alone),
--   progress_message (empty: leave alone)
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_active, lease_revoked, lease_expired,
--   stale_lease
-- Bound: 4
-- Keeps: OneHolder, ErrorMeansUntouched
define("ff_update_progress",
  { "exec_core!=hash" },
  { "execution_id", "lease_id", "lease_epoch", "progress_pct", "progress_message" },
  function(k, a)
    local core, now = record.read(k.exec_core), number.now()
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase ~= "active" then return lease.not_active(core) end
    if core.ownership_state == "lease_revoked" then return err("lease_revoked") end
    if lease.lapsed(core, now) then return err("lease_expired") end
    if not text.set(a.lease_id) or core.current_lease_id ~= a.lease_id
      or core.current_lease_epoch ~= a.lease_epoch then
      return err("stale_lease")
    end
    local fields = { "last_mutation_at", now, "progress_updated_at", now }
    if text.set(a.progress_pct) then
      text.append(fields, { "progress_pct", a.progress_pct })
    end
    if text.set(a.progress_message) then
      text.append(fields, { "progress_message", a.progress_message })
    end
    -- write; nothing below can fail
    record.write(k.exec_core, fields)
    return ok()
  end)
