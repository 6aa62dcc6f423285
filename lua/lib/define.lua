-- `define` declares a function with its signature as data: the names of its keys and of its
-- arguments, in contract order. The body gets both by name. Positions are never counted at run
-- time: an absent one is nil, a surplus one is ignored.
--
-- A key may be written `name:type`. Its type is then checked before the body runs, so that a
-- foreign value under one of our keys is refused while nothing is written yet. Where the body reads
-- or checks the key before it writes anything, or only overwrites it, write `name=type`: the type
-- is not looked up, but no other key of the call may be the same one and of another type. Leave the
-- type out where the key is never touched.
--
-- A name may end in `!`: the body cannot do without it. A call without that key (or with an empty
-- key), or without that argument (an empty one is fine), is refused as `invalid_input`.
--
-- While a library loads, servers offer no globals but `redis`: only plain syntax and string
-- methods work outside of function bodies, here and in every file.
local signatures = {}

-- The bare names of a signature, and those among them that are marked as needed.
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

-- The keys that must not be one and the same, and those whose type is checked, or only noted.
local function read_kinds(declared)
  local apart, typed = {}, {}
  for i = 1, #declared do
    local name, mark, how, kind = declared[i]:match("^([^!:=]+)(!?)([:=]?)(%a*)$")
    if mark ~= "" or how == "=" then
      apart[#apart + 1] = { name = name, kind = how == ":" and kind or nil }
    end
    if how ~= "" then
      typed[#typed + 1] = { name = name, kind = kind, noted = how == "=" }
    end
  end
  return apart, typed
end

local function by_name(names, values)
  local named = {}
  for i = 1, #names do
    named[names[i]] = values[i]
  end
  return named
end

local function define(name, keys, args, body, options)
  local key_names, keys_needed = read_names(keys)
  local apart, typed = read_kinds(keys)
  local arg_names, args_needed = read_names(args)
  local flags = options and options.reads_only and { "no-writes" } or {}
  signatures[#signatures + 1] =
    { name = name, keys = key_names, args = arg_names, reads_only = #flags > 0 }

  redis.register_function({
    function_name = name,
    flags = flags,
    callback = function(key_list, arg_list)
      number.begin()
      guard.begin()
      push.begin()
      edge_group.begin()
      local k, a = by_name(key_names, key_list), by_name(arg_names, arg_list)
      local refused = guard.missing(k, unpack(keys_needed)) or guard.absent(a, args_needed)
        or guard.twins(k, apart)
      if refused then
        return refused
      end
      for i = 1, #typed do
        local check = typed[i].noted and guard.clash or guard.mismatch
        refused = check(k[typed[i].name], typed[i].kind)
        if refused then
          return refused
        end
      end
      return body(k, a, key_list, arg_list)
    end,
  })
end
