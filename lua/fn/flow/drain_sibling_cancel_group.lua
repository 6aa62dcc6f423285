-- Closes a sibling-cancel job without checking whether the siblings have ended.
-- Keys: pending_cancel_groups (set of `<flow_id>|<downstream eid>`), edgegroup (hash)
-- Arguments: flow_id, downstream_eid
-- Replies: drained, drained_sans_group, already_drained
-- Errors: invalid_input, invalid_args
-- Bound: 5
-- Keeps: PendingCancelsIndexed, RepeatIsHarmless
define("ff_drain_sibling_cancel_group",
  { "pending_cancel_groups!:set", "edgegroup!:hash" },
  { "flow_id", "downstream_eid" },
  function(k, a)
    local tuple, refused = edge_group.tuple(a)
    if not tuple then
      return refused
    end
    local known = call("EXISTS", k.edgegroup) == 1
    -- write; nothing below can fail
    if not edge_group.drain(k.pending_cancel_groups, k.edgegroup, tuple) then
      return ok("already_drained", "")
    end
    return ok(known and "drained" or "drained_sans_group", "")
  end)
