-- Composite conditions: a tree of Single, AllOf, Count and NeverBySignal nodes. Each node is named
-- by its place, `members[0].members[2]`; the root by "". Satisfiers are tokens in one set:
--
--   leaf:<path>              a Single that was met
--   sig: src: wp: <value>    what a Count at the root has counted
--   sig@<path>:<value> …     the same for a Count below an AllOf, so that two Counts of one kind
--                            do not count each other's signals
--   node:<path>              a Count or AllOf below an AllOf that became true
--
-- FlowFabric writes the short form everywhere; such tokens count for every Count of their kind, as
-- they did when they were written.

local TOKEN_KINDS = { DistinctSignals = "sig", DistinctSources = "src" }

local function token_kind(node)
  return TOKEN_KINDS[node.count_kind] or "wp"
end

local function count_prefix(node, path)
  return token_kind(node) .. (path == "" and ":" or "@" .. path .. ":")
end

local function members_of(node)
  return type(node.members) == "table" and node.members or {}
end

-- Whether a tree has more than so many levels.
function condition.is_deeper(node, levels)
  if type(node) ~= "table" then
    return false
  end
  for _, member in ipairs(levels > 0 and members_of(node) or {}) do
    if condition.is_deeper(member, levels - 1) then
      return true
    end
  end
  return levels == 0
end

local function member_path(path, i)
  return (path == "" and "" or path .. ".") .. "members[" .. number.digits(i - 1) .. "]"
end

local function lists(waitpoints, key)
  for _, listed in ipairs(type(waitpoints) == "table" and waitpoints or {}) do
    if listed == key then
      return true
    end
  end
  return false
end

-- The nodes that a signal on the waitpoint `key` could satisfy, depth first.
local function candidates(node, path, key, found)
  if type(node) ~= "table" then
    return found
  end
  if node.kind == "AllOf" then
    for i, member in ipairs(members_of(node)) do
      candidates(member, member_path(path, i), key, found)
    end
  elseif (node.kind == "Single" and node.waitpoint_key == key)
    or (node.kind == "Count" and lists(node.waitpoints, key)) then
    found[#found + 1] = { node = node, path = path }
  end
  return found
end

-- Which signals a matcher takes: true for all, a name for those of that name, nil for none.
local function takes(matcher)
  if matcher == nil or matcher == cjson.null then
    return true
  end
  local kind = type(matcher) == "table" and (matcher.kind == nil and "Wildcard" or matcher.kind)
  if kind == "ByName" then
    return type(matcher.name) == "string" and matcher.name or nil
  end
  return kind == "Wildcard" or nil
end

-- What a signal on the waitpoint `key` could satisfy: `count` nodes, and by what they take the
-- Singles that are still open and the Counts. Found once for all signals of a call: thousands may
-- have come ahead of a suspension, and a tree may be as large.
local function reach(cond, key)
  local reached = cond.reached[key]
  if reached then
    return reached
  end
  local found = candidates(cond.tree, "", key, {})
  reached = { count = #found, by = {} }
  for _, candidate in ipairs(found) do
    local taken = takes(candidate.node.matcher)
    if taken then
      local nodes = reached.by[taken] or { singles = {}, counts = {} }
      reached.by[taken] = nodes
      text.append(candidate.node.kind == "Single" and nodes.singles or nodes.counts, { candidate })
    end
  end
  cond.reached[key] = reached
  return reached
end

local function satisfier(candidate, sig, at)
  local node, path = candidate.node, candidate.path
  if node.kind == "Single" then
    return "leaf:" .. path
  end
  local values = {
    sig = sig.id, src = sig.source_type .. ":" .. sig.source_identity, wp = at.id,
  }
  return count_prefix(node, path) .. values[token_kind(node)]
end

local function add(cond, token)
  if cond.tokens[token] then
    return false
  end
  cond.tokens[token] = true
  cond.new_tokens[#cond.new_tokens + 1] = token
  return true
end

-- How many tokens there are by their prefix up to the first colon.
local function tally(tokens)
  local counts = {}
  for token in pairs(tokens) do
    local prefix = token:match("^[^:]*:") or token
    counts[prefix] = (counts[prefix] or 0) + 1
  end
  return counts
end

-- Whether a node is true. `found_true` collects the names of the Counts and AllOfs below the root
-- that are.
local function holds(node, path, cond, counts, found_true)
  if type(node) ~= "table" then
    return false
  end
  local result = false
  if node.kind == "Single" then
    return cond.tokens["leaf:" .. path] == true
  elseif node.kind == "Count" then
    local count = counts[count_prefix(node, path)] or 0
    if path ~= "" then
      count = count + (counts[token_kind(node) .. ":"] or 0)
    end
    result = count >= number.either(node.n, 1)
  elseif node.kind == "AllOf" then
    result = true
    for i, member in ipairs(members_of(node)) do
      result = holds(member, member_path(path, i), cond, counts, found_true) and result
    end
  end
  if result and path ~= "" then
    found_true[#found_true + 1] = "node:" .. path
  end
  return result
end

-- Whether the tree is true. What became true below its root since it was loaded becomes a token
-- too.
function condition.tree_met(cond)
  local found_true = {}
  local met = holds(cond.tree, "", cond, tally(cond.tokens), found_true)
  for _, token in ipairs(#cond.new_tokens > 0 and found_true or {}) do
    add(cond, token)
  end
  return met
end

-- Adds what a signal satisfies among the nodes that take it; answers whether that is new. A Single
-- is met by the first signal and asks for no other.
local function satisfy(cond, nodes, sig, at)
  local added = false
  for _, list in ipairs({ nodes.singles, nodes.counts }) do
    for _, candidate in ipairs(list) do
      added = add(cond, satisfier(candidate, sig, at)) or added
    end
  end
  nodes.singles = {}
  return added
end

-- Feeds one signal to a tree, as `condition.take`.
function condition.take_in_tree(cond, sig, at)
  local reached = reach(cond, at.key)
  if reached.count == 0 then
    return condition.NOT_IN_TREE
  end
  local all, named = reached.by[true], reached.by[sig.name]
  if not all and not named then
    return condition.REJECTED
  end
  local added = all and satisfy(cond, all, sig, at)
  added = named and satisfy(cond, named, sig, at) or added
  if not added then
    return condition.COUNTED_BEFORE
  end
  if not cond.signals[sig.id] then
    cond.signals[sig.id] = true
    cond.new_signals[#cond.new_signals + 1] = sig.id
  end
  return condition.COUNTED
end

-- How many signals had added a token before this call.
function condition.counted_before(cond)
  local count = -#cond.new_signals
  for _ in pairs(cond.signals) do
    count = count + 1
  end
  return count
end

-- The ids of all signals that added a token, sorted, as JSON.
function condition.satisfiers(cond)
  local ids = {}
  for id in pairs(cond.signals) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  return cjson.encode(ids)
end

-- Calls `found(key, path)` for every waitpoint key that a node of the tree names, depth first.
local function each_named(node, path, found)
  if type(node) ~= "table" then
    return
  end
  if node.kind == "AllOf" then
    for i, member in ipairs(members_of(node)) do
      each_named(member, member_path(path, i), found)
    end
  elseif node.kind == "Single" then
    found(node.waitpoint_key, path)
  elseif node.kind == "Count" then
    for _, key in ipairs(type(node.waitpoints) == "table" and node.waitpoints or {}) do
      found(key, path)
    end
  end
end

-- Which nodes each waitpoint key bears on, as { field, path, … }; for people who look. One walk for
-- all keys: both may be thousands.
function condition.member_map(cond, waitpoint_keys)
  local fields, bound = {}, {}
  for _, key in ipairs(waitpoint_keys) do
    bound[key] = true
  end
  each_named(cond.tree, "", function(key, path)
    if key ~= nil and bound[key] then
      text.append(fields, { "wp:" .. key .. ":" .. path, path })
    end
  end)
  return fields
end
