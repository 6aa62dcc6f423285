-- The server does not undo, so a key of a foreign type must be met before the first write.
-- `define` checks the declared keys; a body checks the keys it derives itself.

local WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"

-- Asks for the size of a kind. A key of another kind refuses, so this looks at its type as well, and
-- costs less than TYPE, whose answer is a table.
local SIZE = { string = "STRLEN", hash = "HLEN", set = "SCARD", zset = "ZCARD", stream = "XLEN" }

-- What can be known about a key: what it is taken for, and whether it was looked at.
local KINDS, NOTED, SEEN = { "string", "hash", "set", "zset", "stream" }, {}, {}
for i = 1, #KINDS do
  NOTED[KINDS[i]], SEEN[KINDS[i]] = { kind = KINDS[i] }, { kind = KINDS[i] }
end

-- What is known about the keys of the running call. Two names for one absent key pass every look at
-- its type, until the first write makes it one of the two. A key that was looked at nobody else can
-- change meanwhile: a call over many members of one lane looks at its indexes once.
local known = {}

-- Forgets the keys of the call before.
function guard.begin()
  known = {}
end

-- The server's own refusal when `key` is taken for something else than `kind` already, nil when it
-- is not. Enough for a key that is overwritten whatever it holds.
function guard.clash(key, kind)
  if key == nil or key == "" then
    return nil
  end
  local before = known[key]
  if before == nil then
    known[key] = NOTED[kind]
  elseif before.kind ~= kind then
    return redis.error_reply(WRONG_TYPE)
  end
  return nil
end

-- The server's refusal of a key of another kind in a reply of `redis.pcall`, nil when there is none.
-- Any other failure is raised: nothing is known about the key then.
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

-- The server's own refusal when `key` holds, or is taken for, something else than `kind`; nil when
-- it fits, is absent or was not passed.
function guard.mismatch(key, kind)
  if key == nil or key == "" then
    return nil
  end
  local before = known[key]
  if before == SEEN[kind] then
    return nil
  end
  if before and before.kind ~= kind then
    return redis.error_reply(WRONG_TYPE)
  end
  local refused = guard.refusal(try(SIZE[kind], key))
  if not refused then
    known[key] = SEEN[kind]
  end
  return refused
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

-- The refusal when two of these keys are one and the same though not declared to hold the same,
-- else nil; one that was not passed is nobody's twin. `apart` = { { name, kind or nil }, … }
function guard.twins(k, apart)
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
