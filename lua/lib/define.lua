-- `define` declares a function with its signature as data: the names of its keys and of its
-- arguments, in contract order. The body gets both by name. Positions are not counted at run time:
-- a missing one is nil, an additional one is ignored.
--
-- A key may be written `name:type`. Its type is then checked before the body runs, so that a value
-- of another type under one of our keys is refused before anything is written. Where the body reads
-- or checks the key before it writes anything, or only overwrites it, write `name=type`: the type
-- is not looked up, but no other key of the call may be the same key with another type. Leave the
-- type out if the key is never touched.
--
-- A name may end in `!`: it is required. A call without that key (or with an empty key), or without
-- that argument (an empty one is accepted), is refused as `invalid_input`.
--
-- While a library loads, servers offer no globals but `redis`: outside of function bodies only
-- plain syntax and string methods work, here and in every file.
local signatures = {}

-- The names of a signature without marks, and the required ones among them.
local function read_names(declared)
  local names, needed = {}, {}
  for i = 1, #declared do
    local name, mark = declared[i]:match("^([^!:=]+)(!?)")
    names[i] = name
    if mark ~= "" then
      needed[#needed + 1] = name
    end
  end
  return names, needed
end

-- How many arguments a call must pass at least: up to the last required one.
local function least_count(declared)
  local least = 0
  for i = 1, #declared do
    least = declared[i]:find("!", 1, true) and i or least
  end
  return least
end

-- How each key is used: { name, kind, seen = its type is looked up before the body runs, required,
-- apart = no other such key of the call may be the same key }.
local function read_uses(declared)
  local uses = {}
  for i = 1, #declared do
    local name, mark, how, kind = declared[i]:match("^([^!:=]+)(!?)([:=]?)(%a*)$")
    uses[i] = {
      name = name, kind = how ~= "" and kind or nil, seen = how == ":",
      required = mark ~= "", apart = mark ~= "" or how == "=",
    }
  end
  return uses
end

-- The source of the lookup of the type of the key in the local `key`.
local function source_of_lookup(key, use)
  local lookup = "size = try('" .. guard.SIZE[use.kind] .. "'," .. key .. ")\n"
    .. "if size == 0 then known[" .. key .. "] = missing." .. use.kind .. "\n"
    .. "elseif type(size) == 'table' then\n"
    .. "return k, a, known, named(refuse(size), " .. key .. ")\nend\n"
  if use.required then
    return lookup
  end
  return "if " .. key .. " ~= '' then\n" .. lookup .. "end\n"
end

-- The source of a function of a call's keys and arguments. It answers both by name, what is known
-- about the keys, and the refusal of a key of another type; nothing is known if a key or an
-- argument is missing, or a key is passed twice. Code that is spelled out costs a third of loops
-- over the names.
local function source_of_reader(uses, arg_names, least_args)
  local locals, items, keys, args = {}, {}, {}, {}
  local noted, apart, lookups = {}, { "not (empty and empty.required)" }, {}
  for i = 1, #uses do
    local key, use = "k" .. i, "u" .. i
    locals[i], items[i] = key, "keys[" .. i .. "]"
    keys[i] = uses[i].name .. "=" .. key
    noted[i] = "[" .. key .. "]=" .. use
    apart[i + 1] = "known[" .. key .. "]==" .. use
    if uses[i].seen then
      lookups[#lookups + 1] = source_of_lookup(key, uses[i])
    end
  end
  for i = 1, #arg_names do
    args[i] = arg_names[i] .. "=args[" .. i .. "]"
  end
  local list, count = table.concat(locals, ","), #uses
  return "local uses, missing, refuse, named, try, type = ...\n"
    .. (count > 0 and "local " .. list:gsub("k", "u") .. " = unpack(uses)\n" or "")
    .. "return function(keys, args)\n"
    .. (count > 0 and "local " .. list .. " = " .. table.concat(items, ",") .. "\n" or "")
    .. "local k, a = {" .. table.concat(keys, ",") .. "}, {" .. table.concat(args, ",") .. "}\n"
    .. "if " .. (count > 0 and "not k" .. count .. " or " or "")
    .. "#args < " .. least_args .. " then return k, a end\n"
    .. "local known = {" .. table.concat(noted, ",") .. "}\n"
    .. "local empty, size = known['']\n"
    .. "if not (" .. table.concat(apart, " and ") .. ") then return k, a end\n"
    .. table.concat(lookups)
    .. "return k, a, known\nend"
end

-- The refusal of a call with missing or repeated keys, or without a required argument, else nil.
-- Such calls are rare; this way of checking is slow and exact.
local function refusal(k, a, uses, keys_needed, args_needed)
  known_keys = {}
  local apart = {}
  for i = 1, #uses do
    if uses[i].apart then
      apart[#apart + 1] = { name = uses[i].name, kind = uses[i].seen and uses[i].kind or nil }
    end
  end
  local refused = guard.missing(k, unpack(keys_needed)) or guard.absent(a, args_needed)
    or guard.repeated_keys(k, apart)
  for i = 1, refused and 0 or #uses do
    local use = uses[i]
    if use.kind then
      refused = refused or (use.seen and guard.mismatch or guard.clash)(k[use.name], use.kind)
    end
  end
  return refused
end

-- Functions also use keys that they do not declare. While a slot moves key by key, a function would
-- take those on the other server for missing. Servers refuse a command with several keys, one of
-- which does not exist, as long as its slot moves. So a function that writes, or that reads keys of
-- its own (option `derives_keys`), works on whole slots only: its caller declares a key that never
-- exists behind all others (`absent_key` in core/src/call), or else the function looks for one
-- before it does anything. Other functions need no more than the keys they declare.
local ABSENT = "ff:absent:"
local TRY_AGAIN = "TRYAGAIN Multiple keys request during rehashing of slot"
local sub = ABSENT.sub

-- The refusal of a call in a slot that moves, else nil. A key without a hash tag has its slot for
-- itself.
local function refusal_of_move(key_list)
  local key = key_list[1]
  local tag = key and key:match("^[^{]*({[^}]+})")
  local found = tag and try("EXISTS", key, ABSENT .. tag)
  if type(found) ~= "table" then
    return nil
  elseif found.err:find("non local key", 1, true) then
    return redis.error_reply(TRY_AGAIN)
  end
  error(found)
end

local function define(name, keys, args, body, options)
  local key_names, keys_needed = read_names(keys)
  local arg_names, args_needed = read_names(args)
  local uses, least_args = read_uses(keys), least_count(args)
  local flags = options and options.reads_only and { "no-writes" } or {}
  local writes = #flags == 0
  local whole_slot = writes or options.derives_keys
  signatures[#signatures + 1] =
    { name = name, keys = key_names, args = arg_names, reads_only = not writes }
  local read

  redis.register_function({
    function_name = name,
    flags = flags,
    callback = function(key_list, arg_list)
      read = read or loadstring(source_of_reader(uses, arg_names, least_args))(
        uses, guard.MISSING, guard.refusal, guard.named, redis.pcall, type)
      local last = key_list[#key_list]
      if whole_slot and not (last and sub(last, 1, 10) == "ff:absent:") then
        local refused = refusal_of_move(key_list)
        if refused then return refused end
      end
      running = running + 1
      local k, a, about_keys, refused = read(key_list, arg_list)
      known_keys, sibling_cache = about_keys, nil
      if not about_keys then
        refused = refusal(k, a, uses, keys_needed, args_needed)
      end
      return refused or body(k, a, key_list, arg_list)
    end,
  })
end
