-- Finishes a sibling-cancel job whose drain was lost: removes an entry without a job, or closes the
-- job once no listed sibling runs.
-- Keys: pending_cancel_groups (set of `<flow_id>|<downstream eid>`), edgegroup (hash)
-- Arguments: flow_id, downstream_eid
-- Replies: no_op, sremmed_stale, completed_drain
-- Errors: invalid_input, invalid_args
-- Bound: 4 + 1 * n
-- Keeps: PendingCancelsIndexed, PendingCancelsFinished, RepeatIsHarmless
define("ff_reconcile_sibling_cancel_group",
  { "pending_cancel_groups!=set", "edgegroup!=hash" },
  { "flow_id", "downstream_eid" },
  function(k, a)
    local tuple, refused = edge_group.tuple(a)
    if not tuple then
      return refused
    end
    if call("SISMEMBER", k.pending_cancel_groups, tuple) == 0 then
      return ok("no_op", "not_in_set")
    end
    local group = record.read(k.edgegroup)
    if not group or group.cancel_siblings_pending_flag ~= "true" then
      call("SREM", k.pending_cancel_groups, tuple)
      return ok("sremmed_stale", group and "flag_cleared" or "missing_edgegroup")
    end
    if #edge_group.open_siblings(text.tag(k.edgegroup), group, 1) > 0 then
      return ok("no_op", "siblings_running")
    end
    -- write; nothing below can fail
    edge_group.drain(k.pending_cancel_groups, k.edgegroup, tuple)
    return ok("completed_drain", "")
  end)
