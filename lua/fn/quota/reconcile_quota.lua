-- Sets the counter of a capped policy to the number of its holders, removes expired entries of the
-- rate windows, and answers a page of the holders. The record of a holder is in another slot: the
-- engine checks there whether it has ended and gives the slot back (ff_release_admission). The
-- guard key is no evidence, since it expires with the window while the execution may still run. It
-- decides only for a holder that is not an execution id and so has no record. An added function.
-- Keys: def (hash), window_default (zset), window_requests (zset), concurrency (string),
--   admitted_set (set of executions), policies (set of policy ids)
-- Arguments: quota_policy_id, cursor (of the holders, first "0"), count (of holders, 1 to 1000)
-- Replies: reconciled, unchanged, unknown_cleaned
-- Errors: invalid_input
-- Bound: 12 + 2 * n
-- Keeps: LedgerAdds, QuietAtRest, BoundedWork

-- Divides the holders of a page into those that stay and those that would never be released.
local function part(def_key, page)
  local stay, lapsed = {}, {}
  for _, holder in ipairs(page) do
    local known = text.is_execution(holder)
      or call("EXISTS", def_key .. ":admitted:" .. holder) == 1
    text.append(known and stay or lapsed, { holder })
  end
  return stay, lapsed
end

define("ff_reconcile_quota",
  { "def!=hash", "window_default!:zset", "window_requests!:zset", "concurrency!=string",
    "admitted_set!=set", "policies!:set" },
  { "quota_policy_id!", "cursor", "count" },
  function(k, a)
    local count, refused = number.optional(a.count, "count", 100)
    if count == nil then
      return refused
    end
    local cursor = text.either(a.cursor, "0")
    if not text.is_cursor(cursor) then
      return err("invalid_input", "cursor must be a number, got: " .. cursor)
    end
    local def = record.read(k.def)
    local holders, in_use = call("SCARD", k.admitted_set), quota.counter(k.concurrency)
    local page = call("SSCAN", k.admitted_set, cursor,
      "COUNT", number.digits(math.max(1, math.min(count, 1000))))
    local stay, lapsed = part(k.def, page[2])
    local window_ms = def and number.either(def.requests_per_window_seconds, 0) * 1000 or 0
    local since = number.digits(number.now() - window_ms)
    -- write; nothing below can fail
    if def == nil then
      call("SREM", k.policies, a.quota_policy_id)
      return ok("unknown_cleaned", in_use, "0")
    end
    local word = "unchanged"
    if window_ms > 0 and call("ZREMRANGEBYSCORE", k.window_default, "-inf", since)
      + call("ZREMRANGEBYSCORE", k.window_requests, "-inf", since) > 0 then
      word = "reconciled"
    end
    for _, holder in ipairs(lapsed) do
      holders = holders - call("SREM", k.admitted_set, holder)
      word = "reconciled"
    end
    if number.either(def.active_concurrency_cap, 0) > 0 and in_use ~= holders then
      call("SET", k.concurrency, number.digits(holders))
      in_use, word = holders, "reconciled"
    end
    return text.append(ok(word, in_use, page[1]), stay)
  end)
