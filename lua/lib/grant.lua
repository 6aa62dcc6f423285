-- Claim grants: the right of one worker to claim one execution next, for a short time. While a
-- grant is valid, others leave the execution alone.

-- Whether there is a valid grant at `key`. An expired one is not valid, even if the server still
-- has it because it has no time to live.
function grant.stands(key, now)
  if guard.found_missing(key) then
    return false
  end
  local expires_at = call("HGET", key, "grant_expires_at")
  if not expires_at then
    return call("EXISTS", key) == 1
  end
  return number.either(expires_at, now) >= now
end

-- Grants `core` to the worker in `a` for `ttl`, if it has the capabilities. Answers when the grant
-- expires, or nil and a refusal; a mismatch is stamped on the record, as the contract requires.
-- Needs k.exec_core and k.claim_grant.
function grant.issue(k, a, core, now, ttl)
  local lacking, refused =
    capability.lacking(core.required_capabilities, a.worker_capabilities_csv)
  if not lacking then return nil, refused end
  if lacking ~= "" then
    call("HSET", k.exec_core, "last_capability_mismatch_at", number.digits(now))
    return nil, err("capability_mismatch", lacking)
  end
  -- write; nothing below can fail
  call("DEL", k.claim_grant)
  record.write(k.claim_grant, {
    "worker_id", a.worker_id, "worker_instance_id", a.worker_instance_id, "lane_id", a.lane_id,
    "capability_hash", text.present(a.capability_hash, ""),
    "route_snapshot_json", text.present(a.route_snapshot_json, ""),
    "admission_summary", text.present(a.admission_summary, ""),
    "created_at", now, "grant_expires_at", now + ttl,
  })
  call("PEXPIREAT", k.claim_grant, number.digits(now + ttl))
  return now + ttl
end
