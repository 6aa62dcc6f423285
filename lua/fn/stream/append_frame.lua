-- Appends one frame to the output stream of an attempt, for the holder of its lease.
-- Keys: exec_core (hash), stream (stream), stream_meta (hash), stream_summary (hash)
-- Arguments: execution_id, attempt_index, lease_id, lease_epoch, frame_type, ts, payload, encoding,
--   correlation_id, source, retention_maxlen, attempt_id, max_payload_bytes, stream_mode,
--   patch_kind, ttl_ms, maxlen_floor, maxlen_ceiling, ema_alpha
-- Replies: OK
-- Errors: invalid_input, retention_limit_exceeded, stream_closed, stale_owner_cannot_append,
--   corruption
-- Bound: 19
-- Keeps: OneHolder, ErrorMeansUntouched, BoundedWork
local DURABLE_MODES = { durable = true, summary = true }

-- The fields of a frame in contract order.
local function frame(a, mode, now, summary, best_effort)
  local fields = {
    "frame_type", text.present(a.frame_type, ""), "ts", text.either(a.ts, number.digits(now)),
    "payload", a.payload, "encoding", text.present(a.encoding, "utf8"),
    "source", text.present(a.source, "worker"), "mode", mode,
  }
  if text.set(a.correlation_id) then
    text.append(fields, { "correlation_id", a.correlation_id })
  end
  if summary then
    text.append(fields, { "summary_version", number.digits(summary.version) })
  end
  if best_effort and best_effort.ttl > 0 then
    text.append(fields, { "ttl_ms", number.digits(best_effort.ttl) })
  end
  return fields
end

local function write_meta(k, a, meta, told)
  local fields = next(meta) and {} or stream.fresh_meta(a, told.retention, told.now)
  text.append(fields, {
    "last_sequence", told.entry, "frame_count", told.frame_count,
    "total_bytes", math.max(0, number.floor(meta.total_bytes, 0)) + #a.payload,
    "last_frame_at", told.now,
  })
  if DURABLE_MODES[told.mode] then
    text.append(fields, { "has_durable_frame", "1" })
  end
  if told.durable_kept and told.durable_kept ~= number.either(meta.durable_maxlen, 0) then
    text.append(fields, { "durable_maxlen", told.durable_kept })
  end
  if told.best_effort then
    text.append(fields, {
      "ema_rate_hz", string.format("%.14g", told.best_effort.rate),
      "last_append_ts_ms", told.now, "maxlen_applied_last", told.best_effort.kept,
    })
  end
  record.write(k.stream_meta, fields)
end

define("ff_append_frame",
  { "exec_core!=hash", "stream!:stream", "stream_meta!=hash", "stream_summary:hash" },
  { "execution_id!", "attempt_index!", "lease_id!", "lease_epoch!", "frame_type", "ts", "payload",
    "encoding", "correlation_id", "source", "retention_maxlen", "attempt_id",
    "max_payload_bytes", "stream_mode", "patch_kind", "ttl_ms", "maxlen_floor", "maxlen_ceiling",
    "ema_alpha" },
  function(k, a)
    a.payload = text.present(a.payload, "")
    local bytes_max, refused = number.optional(a.max_payload_bytes, "max_payload_bytes", 65536)
    if bytes_max == nil then return refused end
    if #a.payload > bytes_max then return err("retention_limit_exceeded") end
    local now, mode = number.now(), text.either(a.stream_mode, "durable")
    local core = record.fields(k.exec_core, "lifecycle_phase", "ownership_state",
      "lease_expires_at", "current_attempt_index", "current_lease_id", "current_lease_epoch")
    refused = stream.owner_refusal(core, a, now)
    if refused then return refused end
    local meta = record.read(k.stream_meta) or {}
    if text.set(meta.closed_at) then return err("stream_closed") end
    local retention, summary, best_effort
    retention, refused = number.optional(a.retention_maxlen, "retention_maxlen", 0)
    if retention == nil then return refused end
    if retention < 0 then
      return err("invalid_input", "retention_maxlen must not be negative")
    end
    if mode == "summary" then
      summary, refused = stream.patched(k.stream_summary, a)
      if not summary then return refused end
    elseif mode == "best_effort" then
      best_effort, refused = stream.best_effort(a, meta, now)
      if not best_effort then return refused end
    end
    local told = {
      now = now, mode = mode, retention = retention, best_effort = best_effort,
      frame_count = math.max(0, number.floor(meta.frame_count, 0)) + 1,
      durable_kept = stream.durable_kept(mode, retention, meta),
    }
    -- write; nothing below can fail
    if summary then stream.write_summary(k.stream_summary, summary, now) end
    told.entry = call("XADD", k.stream, "*", unpack(frame(a, mode, now, summary, best_effort)))
    write_meta(k, a, meta, told)
    stream.trim(k.stream, mode, retention, best_effort, told.durable_kept)
    if DURABLE_MODES[mode] and meta.has_durable_frame ~= "1" then
      call("PERSIST", k.stream)
    elseif best_effort and best_effort.ttl > 0 and meta.has_durable_frame ~= "1" then
      call("PEXPIRE", k.stream, number.digits(2 * best_effort.ttl))
    end
    push.frames(k.stream_meta)
    return ok(told.entry, told.frame_count, summary and summary.version)
  end)
