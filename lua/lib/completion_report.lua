-- The end of a run as its holder reports it: success, or a failure that is tried again or final.
-- Shared by ff_complete_execution, ff_fail_execution and ff_end_and_claim. `more` = further core
-- fields as texts (optional).

-- Looks at once at what most runs do not have: limits and an output stream. Answers nil, or the
-- refusal of a key of another type.
function completion.look_up(k)
  local timeout, deadline, meta = k.attempt_timeout, k.execution_deadline, k.stream_meta
  if call("EXISTS", timeout, deadline, meta) == 0 and guard.note_missing(timeout, "zset")
    and guard.note_missing(deadline, "zset") and guard.note_missing(meta, "hash") then
    return nil
  end
  return guard.mismatch(timeout, "zset") or guard.mismatch(deadline, "zset")
    or guard.mismatch(meta, "hash")
end

-- Ends a run successfully. Needs what completion.finish needs, and k.attempt, stream_meta, result.
function completion.succeed(k, id, act, result, more)
  local core, now = act.core, act.now
  attempt.finish(k.attempt, "ended_success", now)
  stream.close(k.stream_meta, "attempt_success", now)
  if result and result ~= "" then
    call("SET", k.result, result)
  end
  local fields = lease.clear_at_end(core)
  completion.finish(k, id, core, {
    outcome = "success",
    now = now,
    home = k.active,
    from = act.stale_keys,
    fields = not more and fields or fields[1] and text.append({}, fields, more) or more,
  })
end

-- What a failure means: { reason, category, retry_at = when it is tried again, nil if it is final
-- }.
function completion.failure(id, act, reason, category, retry_policy_json)
  local failure = { reason = text.present(reason, ""), category = text.present(category, "") }
  failure.retry_at = attempt.retry_at(id, act.core,
    policy.object(text.json(retry_policy_json)), failure.category, act.now)
  return failure
end

-- Why a failed run releases its lease, for the history.
function completion.release_reason(failure)
  return failure.retry_at and "failed_retry_scheduled" or "failed_terminal"
end

-- Ends a run as failed. Needs also k.delayed.
function completion.fail(k, id, act, failure, more)
  local core, now = act.core, act.now
  attempt.finish(k.attempt, "ended_failure", now,
    { "failure_reason", failure.reason, "failure_category", failure.category })
  stream.close(k.stream_meta, "attempt_failure", now)
  local fields = { "failure_reason", failure.reason }
  if core.lease_last_renewed_at then text.append(fields, lease.NO_RENEWAL) end
  if more then text.append(fields, more) end
  if failure.retry_at then
    attempt.schedule_retry(k, id, core, text.append({ k.active }, act.stale_keys),
      failure.retry_at, failure.reason, now, more)
  else
    completion.finish(k, id, core,
      { outcome = "failed", now = now, home = k.active, from = act.stale_keys, fields = fields })
  end
end
