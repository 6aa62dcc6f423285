-- Records that one member has been cancelled. After the last one the flow leaves the backlog.
-- Keys: pending_cancels (set of execution ids), cancel_backlog (zset of flow ids)
-- Arguments: execution_id, flow_id
-- Replies: OK
-- Errors: invalid_input
-- Bound: 5
-- Keeps: PendingCancelsIndexed
define("ff_ack_cancel_member",
  { "pending_cancels!:set", "cancel_backlog!:zset" },
  { "execution_id!", "flow_id!" },
  function(k, a)
    -- write; nothing below can fail
    call("SREM", k.pending_cancels, a.execution_id)
    if call("EXISTS", k.pending_cancels) == 0 then
      call("ZREM", k.cancel_backlog, a.flow_id)
    end
    return ok()
  end)
