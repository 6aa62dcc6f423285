-- Reserves one eligible execution for one worker. The execution stays in the eligible index until
-- the grant is used, so an unused grant has no effect once it expires.
-- Keys: exec_core (hash), claim_grant (hash), eligible (zset)
-- Arguments: execution_id, worker_id, worker_instance_id, lane_id, capability_hash, grant_ttl_ms,
--   route_snapshot_json, admission_summary, worker_capabilities_csv
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_eligible, grant_already_exists,
--   execution_not_in_eligible_set, invalid_capabilities, capability_mismatch
-- Bound: 9
-- Keeps: OneHolder, ErrorMeansUntouched
define("ff_issue_claim_grant",
  { "exec_core!=hash", "claim_grant!=hash", "eligible!=zset" },
  { "execution_id!", "worker_id!", "worker_instance_id!", "lane_id!", "capability_hash",
    "grant_ttl_ms", "route_snapshot_json", "admission_summary", "worker_capabilities_csv" },
  function(k, a)
    local ttl, refused = number.require_span(a.grant_ttl_ms, "grant_ttl_ms", 0)
    if not ttl then return refused end
    local core, now = record.read(k.exec_core), number.now()
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase ~= "runnable" or core.eligibility_state ~= "eligible_now"
      or flow.cancel_covers(k.exec_core, core) then
      return err("execution_not_eligible")
    end
    if grant.stands(k.claim_grant, now) then return err("grant_already_exists") end
    if not call("ZSCORE", k.eligible, a.execution_id) then
      return err("execution_not_in_eligible_set")
    end
    local expires_at
    expires_at, refused = grant.issue(k, a, core, now, ttl)
    return expires_at and ok(a.execution_id) or refused
  end)
