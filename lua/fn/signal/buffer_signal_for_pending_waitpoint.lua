-- Records a signal for a waitpoint whose suspension has not begun; the suspension will count it. If
-- the suspension has begun in the meantime, the signal is delivered to it at once and answered as
-- by ff_deliver_signal, so that no signal is lost between the two.
-- Keys: exec_core (hash), wp_condition (hash), wp_signals (stream), exec_signals (zset),
--   signal (hash), signal_payload (string), sigdedup (string), waitpoint (hash), hmac (hash)
-- Arguments: signal_id, execution_id, waitpoint_id, signal_name, signal_category, source_type,
--   source_identity, payload, payload_encoding, idempotency_key, correlation_id, target_scope,
--   created_at, dedup_ttl_ms, resume_delay_ms, signal_maxlen, max_signals_per_execution,
--   waitpoint_token
-- Replies: buffered_for_pending_waitpoint, resume_condition_satisfied, appended_to_waitpoint,
--   no_op, appended_to_waitpoint_duplicate, signal_ignored_not_in_condition,
--   signal_ignored_matcher_failed, DUPLICATE
-- Errors: execution_not_found, waitpoint_not_found, invalid_keys_missing_hmac, missing_token,
--   invalid_token, hmac_secret_not_initialized, token_expired, invalid_secret,
--   invalid_waitpoint_for_execution, invalid_input, waitpoint_closed, signal_limit_exceeded,
--   target_not_signalable
-- Bound: 71 + 6 * n
-- Keeps: SignalCountsOnce, RepeatIsHarmless
local BUFFERED = "buffered_for_pending_waitpoint"

define("ff_buffer_signal_for_pending_waitpoint",
  { "exec_core!=hash", "wp_condition!=hash", "wp_signals!:stream", "exec_signals!:zset",
    "signal!=hash", "signal_payload!=string", "sigdedup!=string", "waitpoint!=hash", "hmac" },
  { "signal_id!", "execution_id", "waitpoint_id", "signal_name", "signal_category", "source_type",
    "source_identity", "payload", "payload_encoding", "idempotency_key", "correlation_id",
    "target_scope", "created_at", "dedup_ttl_ms", "resume_delay_ms", "signal_maxlen",
    "max_signals_per_execution", "waitpoint_token" },
  function(k, a)
    local now = number.now()
    local core, wp, refused = signal.authenticate(k, a, now, "waitpoint_not_found")
    if not core then return refused end
    local limits
    limits, refused = signal.limits(a)
    if not limits then return refused end
    local earlier = signal.repeated(k, a, limits)
    if earlier then return earlier end
    if wp.state == "closed" or wp.state == "expired" then return err("waitpoint_closed") end
    if wp.state == "active" then
      return signal.locate_suspension(k, core)
        or signal.deliver(k, a, core, wp, limits, now)
    end
    local buffered = call("XLEN", k.wp_signals)
    refused = signal.crowded(k, limits, buffered)
    if refused then return refused end
    if buffered >= signal.BUFFERED_MAX then return err("signal_limit_exceeded") end
    -- write; nothing below can fail
    signal.record(k, a, limits, now, BUFFERED)
    return ok(a.signal_id, BUFFERED)
  end)
