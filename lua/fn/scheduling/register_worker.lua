-- Registers a worker instance, or refreshes its registration. Each call also checks a few other
-- entries of the index and removes those whose registration has expired, so that the index does not
-- grow with every restart.
-- Keys: alive (string), caps (hash), index (set of instances)
-- Arguments: instance_id, worker_id, lanes_csv, caps_csv, ttl_ms, now_ms
-- Replies: registered, refreshed
-- Errors: invalid_input
-- Bound: 17
-- Keeps: ErrorMeansUntouched
local OTHERS_SEEN = 8

-- A few instances of the index without a registration. If their keys cannot be derived, none is
-- taken as expired.
local function expired_instances(k, a)
  local front = k.alive:sub(1, -(#a.instance_id + #":alive" + 1))
  if front .. a.instance_id .. ":alive" ~= k.alive then
    return {}
  end
  local gone = {}
  for _, id in ipairs(call("SRANDMEMBER", k.index, number.digits(OTHERS_SEEN))) do
    local known = call("EXISTS", front .. id .. ":alive", front .. id .. ":caps")
    if known == 0 and id ~= a.instance_id then
      gone[#gone + 1] = id
    end
  end
  return gone
end

define("ff_register_worker",
  { "alive!=string", "caps!:hash", "index!:set" },
  { "instance_id!", "worker_id!", "lanes_csv", "caps_csv", "ttl_ms", "now_ms" },
  function(k, a)
    local ttl, refused = number.require_span(a.ttl_ms, "ttl_ms", 1)
    if not ttl then return refused end
    local now
    now, refused = number.clock(a)
    if not now then return refused end
    local known, gone = call("EXISTS", k.alive) == 1, expired_instances(k, a)
    -- write; nothing below can fail
    call("SET", k.alive, "1", "PX", number.digits(ttl))
    record.write(k.caps, {
      "worker_id", a.worker_id, "lanes_csv", text.present(a.lanes_csv, ""),
      "caps_csv", text.present(a.caps_csv, ""), "ttl_ms", ttl,
      "registered_at_ms", a.now_ms, "last_heartbeat_ms", a.now_ms,
    })
    call("PEXPIRE", k.caps, number.digits(ttl))
    record.each_chunk("SREM", k.index, gone)
    call("SADD", k.index, a.instance_id)
    return ok(known and "refreshed" or "registered")
  end)
