-- Marks a flow cancelled and answers its members. With the policy cancel_all it also records that
-- each member has to be cancelled; the reconciler does so after the grace time.
-- Keys: flow_core (hash), members (set of execution ids), flow_index (untouched),
--   pending_cancels (set of execution ids), cancel_backlog (zset of flow ids); the last two are
--   needed only when there is a cancel to note
-- Arguments: flow_id, reason, cancellation_policy, now_ms (ignored), grace_ms (30000 unless set)
-- Replies: OK
-- Errors: invalid_grace_ms, flow_not_found, flow_already_terminal, invalid_input
-- Bound: 7 + 1 * n
-- Keeps: PendingCancelsIndexed, ErrorMeansUntouched
local GRACE_MS = 30000

define("ff_cancel_flow",
  { "flow_core!=hash", "members!=set", "flow_index", "pending_cancels:set",
    "cancel_backlog:zset" },
  { "flow_id!", "reason", "cancellation_policy", "now_ms", "grace_ms" },
  function(k, a)
    local grace = text.set(a.grace_ms) and number.whole(a.grace_ms) or GRACE_MS
    if text.set(a.grace_ms) and (not number.whole(a.grace_ms) or grace < 0) then
      return err("invalid_grace_ms")
    end
    local _, refused = flow.changeable(k.flow_core)
    if refused then
      return refused
    end
    local policy_name = text.present(a.cancellation_policy, "")
    local members = call("SMEMBERS", k.members)
    local cancels_members = policy_name == "cancel_all" and #members > 0
    refused = cancels_members and guard.missing(k, "pending_cancels", "cancel_backlog")
    if refused then
      return refused
    end
    local now = number.now()
    -- write; nothing below can fail
    flow.cancel(k.flow_core, text.present(a.reason, ""), policy_name, now)
    if cancels_members then
      flow.add_pending_cancels(k, a.flow_id, members, now + grace)
    end
    return text.append(ok(policy_name), members)
  end)
