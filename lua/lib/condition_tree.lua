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

local function accepts(matcher, name)
  if matcher == nil or matcher == cjson.null then
    return true
  end
  if type(matcher) ~= "table" then
    return false
  end
  return matcher.kind == nil or matcher.kind == "Wildcard"
    or (matcher.kind == "ByName" and matcher.name == name)
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

-- Whether a node is true. `found_true`, when given, collects the names of the Counts and AllOfs
-- below the root that are.
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
  if result and path ~= "" and found_true then
    found_true[#found_true + 1] = "node:" .. path
  end
  return result
end

function condition.tree_met(cond)
  return holds(cond.tree, "", cond, tally(cond.tokens))
end

-- Feeds one signal to a tree, as `condition.feed`.
function condition.feed_tree(cond, sig, at)
  local reached = candidates(cond.tree, "", at.key, {})
  if #reached == 0 then
    return condition.NOT_IN_TREE
  end
  local accepted, added = false, false
  for _, candidate in ipairs(reached) do
    if accepts(candidate.node.matcher, sig.name) then
      accepted = true
      added = add(cond, satisfier(candidate, sig, at)) or added
    end
  end
  if not accepted then
    return condition.REJECTED
  end
  if not added then
    return condition.COUNTED_BEFORE
  end
  if not cond.signals[sig.id] then
    cond.signals[sig.id] = true
    cond.new_signals[#cond.new_signals + 1] = sig.id
  end
  local found_true = {}
  local met = holds(cond.tree, "", cond, tally(cond.tokens), found_true)
  for _, token in ipairs(found_true) do
    add(cond, token)
  end
  return met and condition.MET or condition.COUNTED
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

-- Which nodes each waitpoint key bears on, as { field, path, … }; for people who look.
function condition.member_map(cond, waitpoint_keys)
  local fields = {}
  for _, key in ipairs(waitpoint_keys) do
    for _, candidate in ipairs(candidates(cond.tree, "", key, {})) do
      text.append(fields, { "wp:" .. key .. ":" .. candidate.path, candidate.path })
    end
  end
  return fields
end
