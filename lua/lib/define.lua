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

-- The source of a function of a call's keys and arguments. It answers both by name, what is known
-- about the keys, and whether each was passed and is there only once. A table whose fields are
-- spelled out is made in one piece, at a third of the cost of filling it in a loop.
local function source_of_reader(key_names, arg_names)
  local keys, args, known, whole = {}, {}, {}, {}
  for i = 1, #key_names do
    keys[i] = key_names[i] .. "=keys[" .. i .. "]"
    known[i] = "[keys[" .. i .. "]]=uses[" .. i .. "]"
    whole[i] = "known[keys[" .. i .. "]]==uses[" .. i .. "]"
  end
  for i = 1, #arg_names do
    args[i] = arg_names[i] .. "=args[" .. i .. "]"
  end
  local all = #keys == 0 and "true" or table.concat(whole, " and ")
  return "local uses = ...\n"
    .. "return function(keys, args)\n"
    .. "local k, a = {" .. table.concat(keys, ",") .. "}, {" .. table.concat(args, ",") .. "}\n"
    .. "if #keys < " .. #keys .. " then return k, a, {}, false end\n"
    .. "local known = {" .. table.concat(known, ",") .. "}\n"
    .. "return k, a, known, " .. all .. "\nend"
end

-- The refusal of a call with missing or repeated keys, or without a required argument, else nil.
-- Such calls are rare; this way of checking is slow and exact.
local function refusal(k, a, uses, keys_needed, args_needed)
  guard.begin({})
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

local function define(name, keys, args, body, options)
  local key_names, keys_needed = read_names(keys)
  local arg_names, args_needed = read_names(args)
  local least_args, uses = least_count(args), read_uses(keys)
  local flags = options and options.reads_only and { "no-writes" } or {}
  signatures[#signatures + 1] =
    { name = name, keys = key_names, args = arg_names, reads_only = #flags > 0 }
  local lookups, by_name = guard.lookups(uses), nil

  redis.register_function({
    function_name = name,
    flags = flags,
    callback = function(key_list, arg_list)
      by_name = by_name or loadstring(source_of_reader(key_names, arg_names))(uses)
      local k, a, known, whole = by_name(key_list, arg_list)
      number.begin()
      push.begin()
      edge_group.begin()
      local refused
      if whole and #arg_list >= least_args and not (known[""] and known[""].required) then
        guard.begin(known)
        refused = guard.look_up(key_list, lookups)
      else
        refused = refusal(k, a, uses, keys_needed, args_needed)
      end
      return refused or body(k, a, key_list, arg_list)
    end,
  })
end
