-- Reading the document of a chunk, and checking it by itself and against its flow.

local MEMBER_FIELDS = {
  "execution_id", "lane_id", "execution_kind", "priority", "creator_identity", "policy_json",
  "delay_until", "tags_json", "execution_deadline_at", "partition_id", "edge_count",
}

local LISTS = {
  { name = "members", fields = MEMBER_FIELDS },
  { name = "edges", fields = {
    "edge_id", "upstream_eid", "downstream_eid", "dependency_kind", "data_passing_ref",
  } },
  { name = "groups", fields = { "downstream_eid", "policy_variant", "on_satisfied", "k" } },
}

-- Whether each of `ids` is a member of the flow, by position: 1 or 0.
function submission.are_members(members_key, ids)
  local answers = {}
  for first = 1, #ids, 1000 do
    local last = math.min(first + 999, #ids)
    text.append(answers, call("SMISMEMBER", members_key, unpack(ids, first, last)))
  end
  return answers
end

local function invalid(why, id)
  return nil, err("invalid_input", id and why .. ": " .. id or why)
end

-- The items of one list of the document with their named fields as text, or nil and a refusal.
local function read_items(document, list_name, names)
  local items, list = {}, document[list_name]
  if list == nil or list == cjson.null then
    return items
  end
  if type(list) ~= "table" or (#list == 0 and next(list) ~= nil) then
    return invalid(list_name .. " must be a list")
  end
  for _, given in ipairs(list) do
    if type(given) ~= "table" then
      return invalid(list_name .. " must hold objects")
    end
    local item = { given = given }
    for i = 1, #names do
      local name = names[i]
      local value = given[name]
      local kind = type(value)
      if kind == "string" then
        item[name] = value
      elseif kind == "number" then
        item[name] = number.digits(value)
      elseif value ~= nil and value ~= cjson.null then
        return invalid(name .. " must be a text or a number")
      end
    end
    items[#items + 1] = item
  end
  return items
end

-- The members of a chunk by id, with defaults and payloads filled in; or nil and a refusal.
local function index_members(members, tag, namespace, payloads)
  local by_id = {}
  for _, member in ipairs(members) do
    local id = text.present(member.execution_id, "")
    if text.tag(id) ~= tag or id:sub(1, #tag) ~= tag then
      return invalid("member is not of the flow's partition", id)
    end
    if by_id[id] then
      return invalid("member appears twice", id)
    end
    local payload = member.given.payload
    if payload ~= nil and payload ~= cjson.null and payloads[payload] == nil then
      return invalid("member names a payload that is not there", id)
    end
    by_id[id] = member
    member.inbound, member.upstreams = {}, {}
    member.namespace, member.dedup_ttl_ms = namespace, ""
    member.input_payload = payloads[payload] or ""
    member.lane_id = text.either(member.lane_id, "default")
    member.priority = text.either(member.priority, "0")
    for _, name in ipairs(MEMBER_FIELDS) do
      member[name] = text.present(member[name], "")
    end
  end
  return by_id
end

-- The upstreams of edges that are members of earlier chunks, by id: { outcome (nil if it runs),
-- mark (its `unsealed` mark) }.
local function earlier_upstreams(edges, by_id, members_key, prefix, flow_id)
  local ids, found = {}, {}
  for i = 1, #edges do
    local from = edges[i].upstream_eid or ""
    if not by_id[from] and not found[from] then
      ids[#ids + 1], found[from] = from, {}
    end
  end
  local is_member = submission.are_members(members_key, ids)
  for i, id in ipairs(ids) do
    local purged = is_member[i] == 0
    if not purged then
      purged, found[id].outcome, found[id].mark = projection.is_purged(prefix, flow_id, id)
    end
    found[id] = not purged and found[id] or nil
  end
  return found
end

-- Adds an edge to those that leave its upstream: { from, edges, outcome (of one that has ended) }.
local function link_outgoing(chunk, from, edge_id, outcome)
  local list = chunk.outgoing[from]
  if not list then
    list = { from = from, edges = {}, outcome = outcome }
    chunk.outgoing[from], chunk.outgoing[#chunk.outgoing + 1] = list, list
  end
  list.edges[#list.edges + 1] = edge_id
end

-- Links the edges to their children; nil, or the refusal of the first invalid one.
local function link_edges(chunk, members_key, prefix, flow_id)
  local seen, by_id, edges = {}, chunk.by_id, chunk.edges
  local earlier = earlier_upstreams(edges, by_id, members_key, prefix, flow_id)
  local joins = submission.find_joins(chunk, members_key, prefix, flow_id)
  chunk.outgoing = {}
  for i = 1, #edges do
    local edge = edges[i]
    local id, from = edge.edge_id or "", edge.upstream_eid or ""
    local child = by_id[edge.downstream_eid or ""] or joins[edge.downstream_eid or ""]
    if id == "" or seen[id] then
      return err("invalid_input", "edge has no id of its own: " .. id)
    end
    if from == edge.downstream_eid then
      return err("self_referencing_edge", id)
    end
    if not child or not (by_id[from] or earlier[from]) then
      return err("execution_not_in_flow", id)
    end
    if child.mark and not submission.is_older(earlier[from], child) then
      return err("invalid_input", "edge to an earlier member is not from an older one: " .. id)
    end
    seen[id] = true
    link_outgoing(chunk, from, id, earlier[from] and earlier[from].outcome)
    child.inbound[#child.inbound + 1] = edge
    if not child.upstreams[from] then
      child.upstreams[from], child.upstream_count = true, (child.upstream_count or 0) + 1
    end
  end
  return nil
end

-- Whether the edges within the chunk form a cycle.
local function has_cycle(members, by_id)
  local waits_for, waiting, ready, placed = {}, {}, {}, 0
  for _, member in ipairs(members) do
    waits_for[member] = 0
    for i = 1, #member.inbound do
      local upstream = by_id[member.inbound[i].upstream_eid]
      if upstream then
        waits_for[member] = waits_for[member] + 1
        waiting[upstream] = waiting[upstream] or {}
        waiting[upstream][#waiting[upstream] + 1] = member
      end
    end
    if waits_for[member] == 0 then
      ready[#ready + 1] = member
    end
  end
  while #ready > placed do
    placed = placed + 1
    for _, child in ipairs(waiting[ready[placed]] or {}) do
      waits_for[child] = waits_for[child] - 1
      if waits_for[child] == 0 then
        ready[#ready + 1] = child
      end
    end
  end
  return placed < #members
end

-- Links the group policies to their children; nil, or the refusal of the first invalid one.
local function link_groups(groups, by_id)
  for _, group in ipairs(groups) do
    local child = by_id[text.present(group.downstream_eid, "")]
    if not child then
      return err("execution_not_in_flow", text.present(group.downstream_eid, ""))
    end
    local wanted, refused =
      edge_group.policy(group.policy_variant, group.on_satisfied, group.k)
    if not wanted then
      return refused
    end
    local needed = wanted.policy_variant == "quorum" and wanted.k or 1
    if child.group or needed > (child.edges_in_all or child.upstream_count or 0) then
      return err("invalid_input", "group cannot be met or appears twice: " .. child.execution_id)
    end
    child.group = wanted
  end
  return nil
end

-- The chunk that a document describes: { members, edges }, all of it checked by itself, or nil and
-- a refusal. Only the upstreams that it names may be known to the store already.
function submission.read(encoded, tag, namespace, payloads)
  encoded = text.either(encoded, "{}")
  local document = text.json(encoded)
  if type(document) ~= "table" or not encoded:match("^%s*{") then
    return invalid("document must be a JSON object")
  end
  local content = document.content
  local chunk, refused = { content = type(content) == "string" and content or nil }, nil
  for i = 1, #LISTS do
    local list = LISTS[i]
    chunk[list.name], refused = read_items(document, list.name, list.fields)
    if refused then
      return nil, refused
    end
  end
  if #chunk.members > submission.MEMBERS_MAX or #chunk.edges > submission.EDGES_MAX
    or #chunk.groups > submission.MEMBERS_MAX then
    return invalid("chunk is too large")
  end
  chunk.by_id, refused = index_members(chunk.members, tag, namespace, payloads)
  if refused then
    return nil, refused
  end
  return chunk
end

-- The tags of a flow, and the one that keeps the digest of its content.
local function tags_of(flow_core)
  return flow.prefix_of(flow_core) .. ":tags", "selvedge.content"
end

-- The refusal of a chunk of another content than the flow was submitted with, or of tags of another
-- type, else nil. Nothing is known of a flow that was submitted without a digest. `core` = the
-- flow's record, nil if it is new: then only the type counts.
function submission.differs(flow_core, core, chunk)
  local key, tag = tags_of(flow_core)
  local digest = try("HGET", key, tag)
  local refused = guard.clash(key, "hash") or guard.refusal(digest)
  if refused then
    return guard.named(refused, key)
  end
  if core and digest and digest ~= chunk.content then
    return err("invalid_input", "flow was submitted with other content")
  end
  return nil
end

-- Keeps the digest of the content of a new flow; its type was checked by `differs`.
function submission.keep_content(flow_core, chunk)
  local key, tag = tags_of(flow_core)
  call("HSET", key, tag, chunk.content)
end

-- Checks a new chunk against the flow: nil, or the refusal.
function submission.check(chunk, members_key, prefix, flow_id)
  local refused = link_edges(chunk, members_key, prefix, flow_id)
  if refused then
    return refused
  end
  if has_cycle(chunk.members, chunk.by_id) then
    return err("cycle_detected")
  end
  refused = submission.expect_edges(chunk)
  if refused then
    return refused
  end
  return link_groups(chunk.groups, chunk.by_id)
end
