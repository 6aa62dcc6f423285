-- `define` declares a function with its signature as data: the names of its keys and of its
-- arguments, in contract order. The body gets both by name. Positions are never counted at run
-- time: an absent one is nil, a surplus one is ignored.
--
-- A key may be written `name:type`. Its type is then checked before the body runs, so that a
-- foreign value under one of our keys is refused while nothing is written yet. Leave the type out
-- where the body reads the key before it writes anything, where it only deletes or overwrites the
-- key, and where the key is never touched.
--
-- While a library loads, servers offer no globals but `redis`: only plain syntax and string
-- methods work outside of function bodies, here and in every file.
local signatures = {}

local function define(name, keys, args, body, options)
  local key_names, checked = {}, {}
  for i = 1, #keys do
    local key_name, kind = keys[i]:match("^([%w_]+):?(%a*)$")
    key_names[i] = key_name
    if kind ~= "" then
      checked[#checked + 1] = { at = i, kind = kind }
    end
  end
  local flags = options and options.reads_only and { "no-writes" } or {}
  signatures[#signatures + 1] =
    { name = name, keys = key_names, args = args, reads_only = #flags > 0 }

  redis.register_function({
    function_name = name,
    flags = flags,
    callback = function(key_list, arg_list)
      for i = 1, #checked do
        local check = checked[i]
        local refused = guard.mismatch(key_list[check.at], check.kind)
        if refused then
          return refused
        end
      end
      local k, a = {}, {}
      for i = 1, #key_names do
        k[key_names[i]] = key_list[i]
      end
      for i = 1, #args do
        a[args[i]] = arg_list[i]
      end
      return body(k, a, key_list, arg_list)
    end,
  })
end
