-- Closes a sibling-cancel job if it is done: every listed sibling has ended or no longer exists.
-- Otherwise answers the next siblings to cancel; none if only siblings up to `after` are still
-- running. An added function: ff_drain_sibling_cancel_group does not check.
-- Keys: pending_cancel_groups (set of `<flow_id>|<downstream eid>`), edgegroup (hash)
-- Arguments: flow_id, downstream_eid, limit (siblings to answer, 100 unless given, 1000 at most),
--   after (the last sibling that was answered, to go on behind it)
-- Replies: drained, drained_sans_group, already_drained, siblings_running
-- Errors: invalid_args, invalid_input
-- Bound: 5 + 1 * n
-- Keeps: PendingCancelsIndexed, PendingCancelsFinished, RepeatIsHarmless, BoundedWork
define("ff_drain_sibling_cancel_group_checked",
  { "pending_cancel_groups!:set", "edgegroup!=hash" },
  { "flow_id", "downstream_eid", "limit", "after" },
  function(k, a)
    local tuple, refused = edge_group.tuple(a)
    if not tuple then
      return refused
    end
    local limit
    limit, refused = number.require_span(text.either(a.limit, 100), "limit", 1)
    if not limit then
      return refused
    end
    local group = record.read(k.edgegroup)
    if group then
      local open, are_running = edge_group.open_siblings(text.tag(k.edgegroup), group,
        math.min(limit, 1000), a.after)
      if are_running then
        return text.append(ok("siblings_running"), open)
      end
    end
    -- write; nothing below can fail
    if not edge_group.drain(k.pending_cancel_groups, k.edgegroup, tuple) then
      return ok("already_drained")
    end
    return ok(group and "drained" or "drained_sans_group")
  end)
