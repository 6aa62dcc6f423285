-- Reads the rolling summary document of an attempt.
-- Keys: stream_summary (hash)
-- Arguments: none
-- Replies: OK
-- Errors: invalid_input
-- Bound: 1
define("ff_read_summary",
  { "stream_summary!=hash" },
  {},
  function(k)
    local held = record.fields(k.stream_summary, "document", "version", "patch_kind",
      "last_updated_ms", "first_applied_ms")
    return ok(text.present(held.document, ""), text.present(held.version, "0"),
      text.present(held.patch_kind, ""), text.present(held.last_updated_ms, "0"),
      text.present(held.first_applied_ms, "0"))
  end, { reads_only = true })
