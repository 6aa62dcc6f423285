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

-- The bare names of a signature, those among them that are marked as needed, and whether the one at
-- each place is.
local function read_names(declared)
  local names, needed, is_needed = {}, {}, {}
  for i = 1, #declared do
    local name, mark = declared[i]:match("^([^!:=]+)(!?)")
    names[i] = name
    is_needed[i] = mark ~= ""
    if mark ~= "" then
      needed[#needed + 1] = name
    end
  end
  return names, needed, is_needed
end

-- The keys that must not be one and the same, whether the one at each place is such, and those whose
-- type is checked, or only noted.
local function read_kinds(declared)
  local apart, is_apart, typed = {}, {}, {}
  for i = 1, #declared do
    local name, mark, how, kind = declared[i]:match("^([^!:=]+)(!?)([:=]?)(%a*)$")
    is_apart[i] = mark ~= "" or how == "="
    if is_apart[i] then
      apart[#apart + 1] = { name = name, kind = how == ":" and kind or nil }
    end
    if how ~= "" then
      typed[#typed + 1] = { name = name, kind = kind, noted = how == "=" }
    end
  end
  return apart, is_apart, typed
end

-- A table of the call before, emptied: one that has grown to its size need not grow again.
local function emptied(used)
  for name in next, used do
    used[name] = nil
  end
  return used
end

-- Keys by name, and whether one that is needed is missing or one that stands alone comes twice.
local seen = {}
local function keys_by_name(used, names, values, is_needed, is_apart)
  local named, odd = emptied(used), false
  emptied(seen)
  for i = 1, #names do
    local key = values[i]
    named[names[i]] = key
    if key == nil or key == "" then
      odd = odd or is_needed[i]
    elseif is_apart[i] then
      odd, seen[key] = odd or seen[key], true
    end
  end
  return named, odd
end

-- Arguments by name, and whether one that is needed is missing.
local function arguments_by_name(used, names, values, is_needed)
  local named, odd = emptied(used), false
  for i = 1, #names do
    named[names[i]] = values[i]
    odd = odd or values[i] == nil and is_needed[i]
  end
  return named, odd
end

local function define(name, keys, args, body, options)
  local key_names, keys_needed, is_key_needed = read_names(keys)
  local apart, is_apart, typed = read_kinds(keys)
  local arg_names, args_needed, is_arg_needed = read_names(args)
  local flags = options and options.reads_only and { "no-writes" } or {}
  signatures[#signatures + 1] =
    { name = name, keys = key_names, args = arg_names, reads_only = #flags > 0 }
  local used_keys, used_args = {}, {}

  redis.register_function({
    function_name = name,
    flags = flags,
    callback = function(key_list, arg_list)
      number.begin()
      guard.begin()
      push.begin()
      edge_group.begin()
      local k, odd_keys = keys_by_name(used_keys, key_names, key_list, is_key_needed, is_apart)
      local a, odd_args = arguments_by_name(used_args, arg_names, arg_list, is_arg_needed)
      -- Hardly any call is odd: what is wrong with it, if anything, is asked only then.
      local refused = (odd_keys or odd_args) and (guard.missing(k, unpack(keys_needed))
        or guard.absent(a, args_needed) or guard.twins(k, apart))
      if refused then
        return refused
      end
      for i = 1, #typed do
        local key = typed[i]
        refused = (key.noted and guard.clash or guard.mismatch)(k[key.name], key.kind)
        if refused then
          return refused
        end
      end
      return body(k, a, key_list, arg_list)
    end,
  })
end
