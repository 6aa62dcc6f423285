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

-- The names of a signature without marks, the required ones among them, and whether the one at each
-- position is required.
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

-- The keys that must differ from each other, whether the key at each position is one of them, and
-- the keys whose type is checked or only noted.
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

-- A table of the previous call, emptied: a table that has already grown need not grow again.
local function emptied(used)
  for name in next, used do
    used[name] = nil
  end
  return used
end

-- Keys by name, and whether a required one is missing or one that must differ comes twice.
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

-- Arguments by name, and whether a required one is missing.
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
      -- Calls with missing or repeated keys are rare: the refusal is worked out only for these.
      local refused = (odd_keys or odd_args) and (guard.missing(k, unpack(keys_needed))
        or guard.absent(a, args_needed) or guard.repeated_keys(k, apart))
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
