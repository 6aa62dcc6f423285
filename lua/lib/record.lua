-- Hashes as tables. Records may be sparse: every stored field is optional, so readers use `text`
-- and `number`, which define what a missing field means.

-- The whole hash as a table, or nil when the key does not exist.
function record.read(key)
  local flat = call("HGETALL", key)
  if #flat == 0 then
    return nil
  end
  local fields = {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return fields
end

-- The named fields of a hash as a table; missing ones are nil.
function record.fields(key, ...)
  local values, fields = call("HMGET", key, ...), {}
  for i = 1, #values do
    fields[select(i, ...)] = values[i] or nil
  end
  return fields
end

-- The fields in the list `names` of a hash as a table, or nil if the key does not exist. Nil and
-- the server's refusal for a key that holds, or is used as, another type.
function record.part(key, names)
  return record.named(key, names, try("HMGET", key, unpack(names)))
end

-- The same for the reply to an HMGET of those names.
function record.named(key, names, values)
  local fields
  local refused = guard.clash(key, "hash") or guard.refusal(values)
  if refused then
    return nil, guard.named(refused, key)
  end
  for i = 1, #names do
    if values[i] then
      fields = fields or {}
      fields[names[i]] = values[i]
    end
  end
  return fields or (call("EXISTS", key) == 1 and {} or nil)
end

-- The source of a function that reads the fields `names` of a hash. A table whose fields are
-- spelled out is made in one piece, at a third of the cost of filling it in a loop.
local function source_of_reader(names)
  local asked, fields, found = {}, {}, {}
  for i = 1, #names do
    asked[i] = "'" .. names[i] .. "'"
    fields[i] = names[i] .. "=v[" .. i .. "] or nil"
    found[i] = "v[" .. i .. "]"
  end
  return "local try = ...\nreturn function(key)\n"
    .. "local v = try('HMGET', key, " .. table.concat(asked, ",") .. ")\n"
    .. "if " .. table.concat(found, " or ") .. " then\n"
    .. "return {" .. table.concat(fields, ",") .. "}\nend\n"
    .. "return nil, v.err and v\nend"
end

-- The readers that were made, by their list of names.
local READERS = {}

-- The same at half of the cost, for frequent calls. `names` is a constant of its file, since each
-- list has a reader of its own, which is kept.
function record.select(key, names)
  local read = READERS[names]
  if not read then
    read = loadstring(source_of_reader(names))(redis.pcall)
    READERS[names] = read
  end
  local refused = guard.clash(key, "hash")
  if refused then
    return nil, refused
  end
  local fields, failed = read(key)
  if fields then
    return fields
  elseif failed then
    return nil, guard.named(guard.refusal(failed), key)
  end
  return call("EXISTS", key) == 1 and {} or nil
end

-- Writes `pairs_list` = { field, value, field, value, … } in chunks well under the unpack limit.
function record.write(key, pairs_list)
  local words, count = number.texts(pairs_list), #pairs_list
  for first = 1, count, 1000 do
    call("HSET", key, unpack(words, first, math.min(first + 999, count)))
  end
end

-- A variadic command over a long list, in chunks: `record.each_chunk("SADD", key, members)`.
function record.each_chunk(command, key, items)
  local answered = 0
  for first = 1, #items, 1000 do
    local last = math.min(first + 999, #items)
    answered = answered + call(command, key, unpack(items, first, last))
  end
  return answered
end

-- The members of a decoded JSON object as { field, value, … }, by name: scalars as text, nested
-- values as JSON, nulls left out.
function record.from_json(members)
  local names = {}
  for name in pairs(members) do
    names[#names + 1] = name
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  local fields = {}
  for _, name in ipairs(names) do
    local value = members[name]
    if type(value) == "table" then
      local encoded, json = pcall(cjson.encode, value)
      value = encoded and json or nil
    end
    if value ~= nil and value ~= cjson.null then
      fields[#fields + 1] = number.text(name)
      fields[#fields + 1] = type(value) == "boolean" and tostring(value) or number.text(value)
    end
  end
  return fields
end

-- One field of a hash: nil if the field or key is missing or the key holds another type. Never
-- raises for a key of another type, so it may be used after a write.
function record.peek(key, field)
  local value = try("HGET", key, field)
  if type(value) == "string" then
    return value
  end
  return nil
end

-- The run id of the serving process, "" if it is unknown.
local function server()
  local told = try("INFO", "server")
  return type(told) == "string" and told:match("run_id:(%x+)") or ""
end

-- The position of a walk that takes several calls: `stand` is what the walk depends on. A cursor is
-- valid only in the process that answered it.
function record.bookmark(stand, cursor)
  return table.concat({ stand, server(), cursor }, "|")
end

-- The cursor of a bookmark; the beginning if it comes from another process or from a walk over
-- something else.
function record.resume(bookmark, stand)
  local of, by, cursor = text.present(bookmark, ""):match("^(.*)|(%x*)|(%d+)$")
  return of == stand and by == server() and text.is_cursor(cursor) and cursor or "0"
end

-- The members of a set in byte order, none if the key is missing or holds another type. Never
-- raises for a key of another type.
function record.members(key)
  local members = try("SMEMBERS", key)
  if type(members) ~= "table" or members.err then
    return {}
  end
  table.sort(members)
  return members
end

-- The types of an execution's keys that are not only deleted or overwritten.
local CHECKED_TYPES = {
  lease_history = "stream", attempts = "zset", suspension_current = "hash",
  lease_expiry = "zset", attempt_timeout = "zset", execution_deadline = "zset",
  suspension_timeout = "zset", all_executions = "set", worker_leases = "set",
}
local CHECKED = {
  "lease_history", "attempts", "suspension_current", "lease_expiry", "attempt_timeout",
  "execution_deadline", "suspension_timeout", "all_executions", "worker_leases",
}

-- The refusal of a key that is not the core of `id`, else nil.
function record.misnamed(core_key, id)
  if id == "" or text.execution_of(core_key) ~= id then
    return err("invalid_input", "core is not the key of execution_id")
  end
  return nil
end

-- The indexes of its partition that may list an execution, derived from its core's key, by the
-- names that bodies use.
local PARTITION_INDEXES = {
  "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout", "all_executions",
}
function record.indexes(core_key, core)
  local tag = text.tag(core_key)
  local k = {
    exec_core = core_key,
    worker_leases = lane.worker_leases(tag, core.current_worker_instance_id),
  }
  for i = 1, #PARTITION_INDEXES do
    local name = PARTITION_INDEXES[i]
    k[name] = lane.partition_index(tag, name)
  end
  return k
end

-- The same and all keys of the execution: for functions that take no other key.
function record.keys(core_key, core)
  local k, prefix = record.indexes(core_key, core), (core_key:gsub("core$", ""))
  k.payload, k.result, k.policy = prefix .. "payload", prefix .. "result", prefix .. "policy"
  k.tags, k.claim_grant = prefix .. "tags", prefix .. "claim_grant"
  k.attempts, k.waitpoints, k.signals =
    prefix .. "attempts", prefix .. "waitpoints", prefix .. "signals"
  k.lease_current, k.lease_history = prefix .. "lease:current", prefix .. "lease:history"
  k.suspension_current = prefix .. "suspension:current"
  k.deps_meta, k.deps_unresolved, k.deps_all_edges, k.deps_awaited =
    prefix .. "deps:meta", prefix .. "deps:unresolved", prefix .. "deps:all_edges",
    prefix .. "deps:awaited"
  return k
end

-- The same, or nil and a refusal: of a key that is not the core of `id`, or of a value of another
-- type under one of the keys. `touched` = the names of those that the call may touch, by default
-- all.
function record.checked_keys(core_key, id, core, touched)
  local refused = record.misnamed(core_key, id)
  if refused then
    return nil, refused
  end
  local k = record.keys(core_key, core)
  for _, name in ipairs(touched or CHECKED) do
    refused = guard.mismatch(k[name], CHECKED_TYPES[name])
    if refused then
      return nil, refused
    end
  end
  return k
end
