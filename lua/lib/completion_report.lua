-- The end of a run as its holder reports it: success, or a failure that is tried again or final.
-- Shared by ff_complete_execution, ff_fail_execution and ff_end_and_claim. `more` = further core
-- fields as texts (optional).

-- Ends a run successfully. Needs what completion.finish needs, and k.attempt, stream_meta, result.
function completion.succeed(k, id, act, result, more)
  local core, now = act.core, act.now
  attempt.finish(k.attempt, "ended_success", now)
  stream.close(k.stream_meta, "attempt_success", now)
  if result and result ~= "" then
    call("SET", k.result, result)
  end
  local fields = lease.clear_lost(core.current_lease_epoch)
  completion.finish(k, id, core, {
    outcome = "success",
    now = now,
    from = lane.leaving(k.active, act.stale_keys),
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
  local from = lane.leaving(k.active, act.stale_keys)
  attempt.finish(k.attempt, "ended_failure", now,
    { "failure_reason", failure.reason, "failure_category", failure.category })
  stream.close(k.stream_meta, "attempt_failure", now)
  local fields = { "failure_reason", failure.reason }
  if more then text.append(fields, more) end
  if failure.retry_at then
    attempt.schedule_retry(k, id, core, from, failure.retry_at, failure.reason, now, more)
  else
    completion.finish(k, id, core, { outcome = "failed", now = now, from = from, fields = fields })
  end
end
