-- Reserves an execution whose lease expired or was revoked for one worker.
-- Keys: exec_core (hash), claim_grant (hash), lease_expiry (not touched)
-- Arguments: execution_id, worker_id, worker_instance_id, lane_id, capability_hash, grant_ttl_ms,
--   route_snapshot_json, admission_summary, worker_capabilities_csv
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_reclaimable, grant_already_exists,
--   invalid_capabilities, capability_mismatch
-- Bound: 8
-- Keeps: OneHolder, ErrorMeansUntouched
define("ff_issue_reclaim_grant",
  { "exec_core!=hash", "claim_grant!=hash", "lease_expiry" },
  { "execution_id!", "worker_id!", "worker_instance_id!", "lane_id!", "capability_hash",
    "grant_ttl_ms", "route_snapshot_json", "admission_summary", "worker_capabilities_csv" },
  function(k, a)
    local ttl, refused = number.require_span(a.grant_ttl_ms, "grant_ttl_ms", 0)
    if not ttl then return refused end
    local core, now = record.read(k.exec_core), number.now()
    if not core then return err("execution_not_found") end
    if not lease.is_lost(core) or flow.cancel_covers(k.exec_core, core) then
      return err("execution_not_reclaimable")
    end
    if grant.stands(k.claim_grant, now) then return err("grant_already_exists") end
    local expires_at
    expires_at, refused = grant.issue(k, a, core, now, ttl)
    return expires_at and ok(a.execution_id, expires_at) or refused
  end)
