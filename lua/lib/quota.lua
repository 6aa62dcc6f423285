-- Quotas: the number of admissions in a window, and at a time. The counter decides the cap; the
-- admitted set lists the holders, so that each holder is counted once and given back once
-- (LedgerAdds).

-- The checked numbers of an admission, or nil and a refusal. `window_ms` is whole; entries of the
-- window at or before `since` have expired.
function quota.terms(a)
  local terms = {}
  for _, name in ipairs({ "now_ms", "window_seconds", "rate_limit", "concurrency_cap" }) do
    local n, refused = number.require(a[name], name)
    if n == nil then
      return nil, refused
    end
    terms[name] = n
  end
  local jitter_ms, refused = number.optional(a.jitter_ms, "jitter_ms", 0)
  if jitter_ms == nil then
    return nil, refused
  end
  terms.jitter_ms = jitter_ms
  terms.window_ms = math.floor(terms.window_seconds * 1000)
  if terms.window_ms < 0 or terms.window_ms > number.SPAN_MAX then
    return nil, err("invalid_input", "window_seconds is out of range, got: " .. a.window_seconds)
  end
  terms.since = terms.now_ms - terms.window_ms
  return terms
end

-- How long a refused caller should wait: until the oldest entry of the window expires, plus up to
-- `jitter_ms`, so that not all return at once.
function quota.retry_after(window_key, terms, execution_id)
  local oldest = call("ZRANGEBYSCORE", window_key, "(" .. number.digits(terms.since), "+inf",
    "WITHSCORES", "LIMIT", "0", "1")[2]
  local wait = number.either(oldest, terms.now_ms) + terms.window_ms - terms.now_ms
  local jitter = 0
  if terms.jitter_ms > 0 then
    jitter = math.floor(policy.draw(execution_id) * (terms.jitter_ms + 1))
  end
  return math.max(0, math.ceil(wait)) + jitter
end

-- The stored counter.
function quota.counter(key)
  return number.floor(call("GET", key), 0)
end
