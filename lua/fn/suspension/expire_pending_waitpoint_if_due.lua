-- Closes a waitpoint whose suspension never began, when it is due by the server's clock. An added
-- function: ff_close_waitpoint does not check the time and leaves index entries of deleted
-- waitpoints behind. After every answer but not_yet_due there is no index entry.
-- Keys: waitpoint (hash), pending_wp_expiry (zset)
-- Arguments: waitpoint_id
-- Replies: closed, not_yet_due, not_found_cleaned, not_pending_cleaned
-- Errors: invalid_input
-- Bound: 6
-- Keeps: NotBeforeDue, WindowMoves
define("ff_expire_pending_waitpoint_if_due",
  { "waitpoint!=hash", "pending_wp_expiry!:zset" },
  { "waitpoint_id!" },
  function(k, a)
    local wp, now = record.read(k.waitpoint), number.now()
    local due = wp and number.either(wp.expires_at, math.huge) <= now
    -- write; nothing below can fail
    if wp and wp.state == "pending" and not due then
      -- A score cannot hold larger numbers exactly.
      local expires_at = math.min(number.either(wp.expires_at, number.MAX), number.MAX)
      call("ZADD", k.pending_wp_expiry, "XX", number.digits(expires_at), a.waitpoint_id)
      return ok("not_yet_due")
    end
    call("ZREM", k.pending_wp_expiry, a.waitpoint_id)
    if not wp then return ok("not_found_cleaned") end
    if wp.state ~= "pending" then return ok("not_pending_cleaned") end
    waitpoint.close(k.waitpoint, waitpoint.NEVER_COMMITTED, now)
    return ok("closed")
  end)
