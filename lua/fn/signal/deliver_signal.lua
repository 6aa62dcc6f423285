-- Authenticates, records and evaluates a signal for a suspended execution, and resumes it when its
-- condition is met. A signal that was accepted before is a duplicate, even if it was the one that
-- resumed the execution.
-- Keys: exec_core (hash), wp_condition (hash), wp_signals (stream), exec_signals (zset),
--   signal (hash), signal_payload (string), sigdedup (string), waitpoint (hash),
--   suspension (hash), eligible (zset), suspended (zset), delayed (zset),
--   suspension_timeout (zset), hmac (hash), signal_delivery (stream)
-- Arguments: signal_id, execution_id, waitpoint_id, signal_name, signal_category, source_type,
--   source_identity, payload, payload_encoding, idempotency_key, correlation_id, target_scope,
--   created_at, dedup_ttl_ms, resume_delay_ms, signal_maxlen, max_signals_per_execution,
--   waitpoint_token
-- Replies: resume_condition_satisfied, appended_to_waitpoint, no_op,
--   appended_to_waitpoint_duplicate, signal_ignored_not_in_condition,
--   signal_ignored_matcher_failed, DUPLICATE
-- Errors: execution_not_found, invalid_token, invalid_keys_missing_hmac, missing_token,
--   hmac_secret_not_initialized, token_expired, invalid_secret, invalid_waitpoint_for_execution,
--   invalid_input, target_not_signalable, waitpoint_pending_use_buffer_script,
--   waitpoint_not_found, waitpoint_closed, signal_limit_exceeded
-- Bound: 61 + 6 * n
-- Keeps: SignalCountsOnce, RepeatIsHarmless, VectorWhole, OneHome
define("ff_deliver_signal",
  { "exec_core!=hash", "wp_condition!=hash", "wp_signals!:stream", "exec_signals!:zset",
    "signal!=hash", "signal_payload!=string", "sigdedup!=string", "waitpoint!=hash",
    "suspension!=hash", "eligible!:zset", "suspended!:zset", "delayed!:zset",
    "suspension_timeout!:zset", "hmac", "signal_delivery:stream" },
  { "signal_id!", "execution_id", "waitpoint_id", "signal_name", "signal_category", "source_type",
    "source_identity", "payload", "payload_encoding", "idempotency_key", "correlation_id",
    "target_scope", "created_at", "dedup_ttl_ms", "resume_delay_ms", "signal_maxlen",
    "max_signals_per_execution", "waitpoint_token" },
  function(k, a)
    local now = number.now()
    local core, wp, refused = signal.authenticate(k, a, now, "invalid_token")
    if not core then return refused end
    local limits
    limits, refused = signal.limits(a)
    if not limits then return refused end
    refused = signal.locate_feed(k)
    if refused then return refused end
    return signal.repeated(k, a, limits) or signal.deliver(k, a, core, wp, limits, now)
  end)
