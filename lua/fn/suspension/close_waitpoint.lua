-- Closes a pending or active waitpoint. With the reason `never_committed`, for a pending waitpoint
-- whose suspension never began, a waitpoint that has become active in the meantime is left alone,
-- since an execution waits on it.
-- Keys: exec_core (ignored), waitpoint (hash), pending_wp_expiry (zset)
-- Arguments: waitpoint_id, reason
-- Replies: OK, already_closed
-- Errors: invalid_input, waitpoint_not_found, waitpoint_not_pending, waitpoint_not_open
-- Bound: 6
-- Keeps: NotBeforeDue, WindowMoves
define("ff_close_waitpoint",
  { "exec_core", "waitpoint!=hash", "pending_wp_expiry!:zset" },
  { "waitpoint_id!", "reason" },
  function(k, a)
    local wp = record.read(k.waitpoint)
    if not wp then return err("waitpoint_not_found") end
    local reason = text.present(a.reason, "proactive_close")
    local closed = wp.state == "closed" or wp.state == "expired"
    if wp.state == "active" and reason == waitpoint.NEVER_COMMITTED then
      return err("waitpoint_not_pending")
    elseif not closed and wp.state ~= "pending" and wp.state ~= "active" then
      return err("waitpoint_not_open")
    end
    -- write; nothing below can fail
    call("ZREM", k.pending_wp_expiry, a.waitpoint_id)
    if closed then return ok("already_closed") end
    waitpoint.close(k.waitpoint, reason, number.now())
    return ok()
  end)
