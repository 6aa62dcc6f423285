-- Admits an execution under a rate window and a concurrency cap, once: an execution that already
-- holds a slot keeps it, is not counted again, and its own entry in the window does not count
-- against it.
-- Keys: window (zset of executions by admission time), concurrency (string), def (not touched),
--   guard (string, remembers the admission for the window's length), admitted_set (set)
-- Arguments: now_ms, window_seconds, rate_limit (0: any), concurrency_cap (0: any), execution_id,
--   jitter_ms (optional)
-- Replies: bare ADMITTED, bare ALREADY_ADMITTED, bare RATE_EXCEEDED, bare CONCURRENCY_EXCEEDED
-- Errors: invalid_input
-- Bound: 12
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_check_admission_and_record",
  { "window!=zset", "concurrency!=string", "def", "guard!=string", "admitted_set!=set" },
  { "now_ms", "window_seconds", "rate_limit", "concurrency_cap", "execution_id!", "jitter_ms" },
  function(k, a)
    local terms, refused = quota.terms(a)
    if terms == nil then
      return refused
    end
    local id = a.execution_id
    local holds = call("SISMEMBER", k.admitted_set, id) == 1
    if call("EXISTS", k.guard) == 1 or (holds and terms.window_ms == 0) then
      return { "ALREADY_ADMITTED" }
    end
    local since = number.digits(terms.since)
    local entry = tonumber(call("ZSCORE", k.window, id))
    local others = call("ZCOUNT", k.window, "(" .. since, "+inf")
    if entry and entry > terms.since then
      others = others - 1
    end
    local in_use = terms.concurrency_cap > 0 and quota.counter(k.concurrency)
    -- write; nothing below can fail
    call("ZREMRANGEBYSCORE", k.window, "-inf", since)
    if terms.rate_limit > 0 and others >= terms.rate_limit then
      return { "RATE_EXCEEDED", number.digits(quota.retry_after(k.window, terms, id)) }
    end
    if in_use and not holds and in_use >= terms.concurrency_cap then
      return { "CONCURRENCY_EXCEEDED" }
    end
    call("ZADD", k.window, number.digits(terms.now_ms), id)
    if terms.window_ms > 0 then
      call("SET", k.guard, "1", "PX", number.digits(terms.window_ms), "NX")
    end
    if in_use and not holds then
      call("SET", k.concurrency, number.digits(in_use + 1))
    end
    call("SADD", k.admitted_set, id)
    return { "ADMITTED" }
  end)
