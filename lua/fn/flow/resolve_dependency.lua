-- Resolves one edge of a child by the outcome that the caller passes, and releases or skips the
-- child if this decides its group. Skipping ends whatever the child was doing. The child is moved
-- within the lane of its record, whatever keys the caller passed.
-- Keys: exec_core (hash), deps_meta (hash), unresolved (set), dep (hash), eligible, terminal,
--   blocked (zsets), attempt (hash), stream_meta (hash), payload (string), upstream_result
--   (string), edgegroup (hash; unset for none), incoming (set of edge ids), pending_cancel_groups
--   (set); what a short call leaves out of the last two follows from the edge group's key
-- Arguments: edge_id, upstream_outcome, now_ms (the caller's clock), flow_id, downstream_eid
-- Replies: satisfied, impossible, pending, already_fired, already_resolved
-- Errors: invalid_dependency, invalid_input, invariant_violation
-- Bound: 100 + 264 * n, or 16500 + 7 * n
-- Keeps: GroupCounts, OneHome, PendingCancelsIndexed, ErrorMeansUntouched, RepeatIsHarmless
define("ff_resolve_dependency",
  { "exec_core!=hash", "deps_meta!=hash", "unresolved!=set", "dep!=hash", "eligible!", "terminal!",
    "blocked!", "attempt", "stream_meta", "payload", "upstream_result", "edgegroup", "incoming",
    "pending_cancel_groups" },
  { "edge_id!", "upstream_outcome", "now_ms", "flow_id", "downstream_eid" },
  function(k, a)
    local found, refused = dependency.records(k)
    local core
    if not refused then
      core, refused = dependency.child(k.exec_core)
    end
    refused = refused or guard.any_other({ k.eligible, k.terminal, k.blocked }, "zset")
      or dependency.locate(k, core, { "eligible", "terminal", "blocked" })
    if refused then
      return refused
    end
    return (dependency.resolve(k, a, found, function() return core end))
  end)
