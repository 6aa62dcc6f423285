-- Checks of key types. The server does not undo, so a key of another type must be found before the
-- first write. `define` checks the declared keys; a body checks the keys it derives itself.

local WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"

-- The command that reads the size of a type. It fails for a key of another type, so it checks the
-- type too, and costs less than TYPE, whose reply is a table.
guard.SIZE = { string = "STRLEN", hash = "HLEN", set = "SCARD", zset = "ZCARD", stream = "XLEN" }
local SIZE = guard.SIZE

-- What can be known about a key: the type it is used as, and whether it was looked up. Keys that a
-- call passes have such an entry of their own (`read_uses` in define.lua).
local KINDS, NOTED, SEEN, MISSING = { "string", "hash", "set", "zset", "stream" }, {}, {}, {}
for i = 1, #KINDS do
  local kind = KINDS[i]
  NOTED[kind], SEEN[kind] = { kind = kind }, { kind = kind, seen = true }
  -- A string may be empty and exist.
  MISSING[kind] = { kind = kind, seen = true, missing = kind ~= "string" }
end
guard.MISSING = MISSING

-- What is known about the keys of the running call is in `known_keys` (prelude.lua), by key. Two
-- names for one missing key pass every lookup of the type until the first write creates it as one
-- of the two. A key that was looked up cannot change during the call: a call over many members of
-- one lane looks at its indexes once.

-- Notes that a lookup of several keys at once found that this one does not exist. Whether it may be
-- used as `kind`: not if it is used as another type already.
function guard.note_missing(key, kind)
  local before = known_keys[key]
  if before and before.kind and before.kind ~= kind then
    return false
  end
  known_keys[key] = MISSING[kind]
  return true
end

-- The same for a zset, a stream and four hashes, which no other key of the call is.
function guard.note_all_missing(zset, stream, hash1, hash2, hash3, hash4)
  if known_keys[zset] or known_keys[stream] or known_keys[hash1] or known_keys[hash2]
    or known_keys[hash3] or known_keys[hash4] then
    return guard.note_missing(zset, "zset") and guard.note_missing(stream, "stream")
      and guard.note_missing(hash1, "hash") and guard.note_missing(hash2, "hash")
      and guard.note_missing(hash3, "hash") and guard.note_missing(hash4, "hash")
  end
  local hash = MISSING.hash
  known_keys[zset], known_keys[stream] = MISSING.zset, MISSING.stream
  known_keys[hash1], known_keys[hash2] = hash, hash
  known_keys[hash3], known_keys[hash4] = hash, hash
  return true
end

-- Whether a lookup of this call found that the key does not exist; false if nothing is known.
function guard.found_missing(key)
  local about = known_keys[key]
  return about ~= nil and about.missing
end

-- The server's own refusal if `key` is already used as another type than `kind` in this call, else
-- nil. Enough for a key that is overwritten whatever it holds.
function guard.clash(key, kind)
  if key == nil or key == "" then
    return nil
  end
  local before = known_keys[key]
  if before == nil or before.kind == nil then
    known_keys[key] = NOTED[kind]
  elseif before.kind ~= kind then
    return guard.named(redis.error_reply(WRONG_TYPE), key)
  end
  return nil
end

-- The refusal of a key of another type in a reply of `redis.pcall`, nil if there is none. Any other
-- failure is raised: then nothing is known about the key.
function guard.refusal(reply)
  local words = type(reply) == "table" and reply.err
  if not words then
    return nil
  end
  if not words:find("^WRONGTYPE") then
    error(reply)
  end
  return redis.error_reply(words)
end

-- The refusal of a key of another type with the key at its end. Other refusals, and keys that a
-- line of text cannot show, are left out.
function guard.named(refused, key)
  if not refused.err or refused.err:find(": ", 1, true) or key:find("[^\33-\126]") then
    return refused
  end
  return redis.error_reply(refused.err .. ": " .. key)
end

-- The reply to a command, nil if its key holds another type. Any other failure is raised.
function guard.reply(...)
  local reply = try(...)
  return not guard.refusal(reply) and reply or nil
end

-- The server's own refusal if `key` holds, or is used in this call as, another type than `kind`;
-- nil if it fits, does not exist or was not passed.
function guard.mismatch(key, kind)
  if key == nil or key == "" then
    return nil
  end
  local before = known_keys[key]
  if before and before.kind then
    if before.kind ~= kind then
      return guard.named(redis.error_reply(WRONG_TYPE), key)
    elseif before.seen then
      return nil
    end
  end
  local size = try(SIZE[kind], key)
  if type(size) == "table" then
    return guard.named(guard.refusal(size), key)
  end
  known_keys[key] = (size == 0 and MISSING or SEEN)[kind]
  return nil
end

-- The same for a list of derived keys: `guard.any_mismatch({ { key, "hash" }, … })`.
function guard.any_mismatch(pairs_of_key_and_kind)
  for _, pair in ipairs(pairs_of_key_and_kind) do
    local refused = guard.mismatch(pair[1], pair[2])
    if refused then
      return refused
    end
  end
  return nil
end

-- The same for keys that must all hold one kind: `guard.any_other(keys, "zset")`.
function guard.any_other(keys, kind)
  for _, key in ipairs(keys) do
    local refused = guard.mismatch(key, kind)
    if refused then
      return refused
    end
  end
  return nil
end

-- The refusal when one of the named keys was not passed, else nil:
-- `guard.missing(k, "exec_core", "eligible")`. A command over a missing key would raise.
function guard.missing(k, ...)
  for _, name in ipairs({ ... }) do
    if not text.set(k[name]) then
      return err("invalid_input", "key " .. name .. " is required")
    end
  end
  return nil
end

-- The refusal if two of these keys are the same although not declared to hold the same type, else
-- nil; keys that were not passed do not count. `apart` = { { name, kind or nil }, … }
function guard.repeated_keys(k, apart)
  local first = {}
  for _, key in ipairs(apart) do
    local passed = text.either(k[key.name], nil)
    local other = passed and first[passed]
    if other and (other.kind == nil or other.kind ~= key.kind) then
      return err("invalid_input", "keys " .. other.name .. " and " .. key.name .. " must differ")
    end
    if passed then
      first[passed] = other or key
    end
  end
  return nil
end

-- The refusal when one of the named arguments was not passed, else nil; an empty one counts as
-- passed.
function guard.absent(a, names)
  for _, name in ipairs(names) do
    if a[name] == nil then
      return err("invalid_input", "argument " .. name .. " is required")
    end
  end
  return nil
end
