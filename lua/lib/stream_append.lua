-- Appending frames to the output stream of an attempt. Three modes share one stream: durable frames
-- are kept up to a length, a summary frame also patches the attempt's summary document, and
-- best-effort frames are trimmed by the rate at which they arrive. No mode trims the durable frames
-- of another.

local DURABLE_KEPT = 10000
local SUMMARY_KEPT = 64
local DOCUMENT_BYTES_MAX = 1048576
local PATCH_DEPTH_MAX = 17

-- The refusal when the caller is not the live holder of the attempt, else nil.
function stream.owner_refusal(core, a, now)
  if core.lifecycle_phase ~= "active" then
    return err("stream_closed")
  end
  if core.ownership_state == "lease_revoked" or lease.lapsed(core, now)
    or text.present(core.current_attempt_index, "") ~= a.attempt_index
    or text.present(core.current_lease_id, "") ~= a.lease_id
    or text.present(core.current_lease_epoch, "") ~= a.lease_epoch then
    return err("stale_owner_cannot_append")
  end
  return nil
end

-- The meta record of a stream that gets its first frame.
function stream.fresh_meta(a, retention, now)
  return {
    "stream_id", a.execution_id .. ":" .. a.attempt_index, "execution_id", a.execution_id,
    "attempt_id", text.present(a.attempt_id, ""), "attempt_index", a.attempt_index,
    "created_at", now, "closed_at", "", "closed_reason", "", "durability_mode", "durable_full",
    "retention_maxlen", retention, "has_durable_frame", "0", "durable_maxlen", "0",
  }
end

-- A JSON text that must be an object: the object, or nil and whether it is JSON at all. An empty
-- list counts as an empty object, since FlowFabric's codec cannot tell them apart.
local function object_in(source)
  local value = json.parse(source)
  if value and value.items and #value.items == 0 then
    return json.object()
  end
  return value and value.members and value, value ~= nil
end

-- The document after a patch: { document, version }, or nil and a refusal.
function stream.patched(summary_key, a)
  if not text.set(summary_key) then
    return nil, err("invalid_input", "summary mode requires stream_summary key")
  end
  if text.set(a.patch_kind) and a.patch_kind ~= "json-merge-patch" then
    return nil, err("invalid_input", "unsupported patch_kind")
  end
  local patch, is_json = object_in(text.present(a.payload, ""))
  if not patch then
    return nil, err("invalid_input",
      is_json and "patch must be a JSON object" or "patch payload is not valid JSON")
  end
  local held = record.fields(summary_key, "document", "version")
  local document = object_in(text.either(held.document, "{}"))
  if not document then
    return nil, err("corruption", "stored summary document not decodeable")
  end
  if json.object_depth(patch) > PATCH_DEPTH_MAX then
    return nil, err("invalid_input", "patch_depth_exceeded")
  end
  json.merge(document, patch)
  local spelled = json.spell(document)
  if #spelled > DOCUMENT_BYTES_MAX then
    return nil, err("retention_limit_exceeded")
  end
  return { document = spelled, version = math.max(0, number.floor(held.version, 0)) + 1 }
end

function stream.write_summary(key, summary, now)
  record.write(key, {
    "version", summary.version, "document", summary.document,
    "patch_kind", "json-merge-patch", "last_updated_ms", now,
  })
  if summary.version == 1 then
    record.write(key, { "first_applied_ms", now })
  end
end

-- A positive whole number, or `default`.
local function positive(value, default)
  local n = number.floor(value, 0)
  return n > 0 and n or default
end

-- What a best-effort append keeps: { kept, rate, ttl }, or nil and a refusal. The length follows
-- twice what comes within the time to live.
function stream.best_effort(a, meta, now)
  local ttl, refused = number.optional(a.ttl_ms, "ttl_ms", 0)
  if ttl == nil then
    return nil, refused
  end
  local floor = positive(a.maxlen_floor, 64)
  local ceiling = math.max(floor, positive(a.maxlen_ceiling, 16384))
  local alpha = number.either(a.ema_alpha, 0)
  if alpha <= 0 or alpha > 1 then
    alpha = 0.2
  end
  local seconds = math.min(math.max(ttl, 1), number.SPAN_MAX) / 1000
  local before = number.either(meta.ema_rate_hz, nil)
  local last = number.either(meta.last_append_ts_ms, nil)
  local rate = floor / (2 * seconds)
  if before and last then
    rate = alpha * (1000 / math.max(now - last, 1)) + (1 - alpha) * before
  end
  local kept = math.max(floor, math.min(math.ceil(rate * seconds * 2), ceiling))
  return { kept = kept, rate = rate, ttl = math.max(0, math.min(ttl, number.SPAN_MAX)) }
end

-- Trims the stream by the rule of the mode. `durable_kept` is how many entries the durable frames
-- in it need, nil when there are none.
function stream.trim(key, mode, retention, best_effort, durable_kept)
  if mode == "summary" or best_effort then
    local kept = math.max(best_effort and best_effort.kept or SUMMARY_KEPT, durable_kept or 0)
    call("XTRIM", key, "MAXLEN", "~", number.digits(kept))
  elseif retention == 0 then
    call("XTRIM", key, "MAXLEN", "~", number.digits(DURABLE_KEPT))
  else
    call("XTRIM", key, "MAXLEN", "=", number.digits(retention))
  end
end

-- How many entries the durable frames of the stream need after this frame, nil without any.
function stream.durable_kept(mode, retention, meta)
  if mode == "summary" or mode == "best_effort" then
    -- A stream that FlowFabric opened does not say how many it needs.
    local unsaid = meta.durable_maxlen == nil and meta.has_durable_frame == "1"
    return unsaid and math.max(number.either(meta.retention_maxlen, 0), DURABLE_KEPT)
      or number.either(meta.durable_maxlen, nil)
  end
  return retention > 0 and retention or DURABLE_KEPT
end
