-- Whether the children of an execution still need it. It may have tens of thousands, so they are
-- checked in pages, and the record stores which page is next: the children of earlier pages are
-- resolved for good. First come the children whose edges the flow lists, then those whose edges
-- only the execution lists (see dependency.noting).

-- Whether a child may still need this outcome: its edge is unresolved, or failed, which a replay of
-- the child re-arms. Only a satisfied edge is never resolved again.
local function waits(tag, child, edge_id)
  local front = dependency.front(tag, child)
  return record.peek(front .. ":core", "lifecycle_phase")
    and record.peek(front .. ":dep:" .. edge_id, "state") ~= "satisfied"
end

-- A page of the edges that the flow lists: the next cursor, and the first child that waits.
local function ask_listed(tag, prefix, outgoing, cursor, limit)
  local page = call("SSCAN", outgoing, cursor, "COUNT", limit)
  for _, edge_id in ipairs(page[2]) do
    local child = record.peek(prefix .. ":edge:" .. edge_id, "downstream_execution_id")
    if child and waits(tag, child, edge_id) then
      return page[1], child
    end
  end
  return page[1]
end

-- The same for edges that only the execution lists.
local function ask_noted(tag, noted, cursor, limit)
  local page = call("HSCAN", noted, cursor, "COUNT", limit)
  for i = 1, #page[2], 2 do
    if waits(tag, page[2][i + 1], page[2][i]) then
      return page[1], page[2][i + 1]
    end
  end
  return page[1]
end

-- The next page of children, about `limit`: { child = the first that waits, left = what the record
-- has to store while there are further pages }. Another end, or another number of edges, starts
-- with the first page again. Nil and the refusal for a list of another type. Once a purge has begun
-- the flow lists no more edges, but an edge that it does not list may still be applied to a child.
function purge.children(k, id, core, limit)
  local tag, count = text.tag(k.exec_core), number.digits(limit)
  local stand = text.present(core.completed_at, "") .. ":"
  local noted = "noted:" .. stand .. call("HLEN", k.deps_awaited)
  local next_noted = record.resume(core.purge_asked, noted)
  if text.set(core.flow_id) and not text.set(core.purging_since) and next_noted == "0" then
    local prefix = flow.prefix(tag, core.flow_id)
    local outgoing = prefix .. ":out:" .. id
    local size = try("SCARD", outgoing)
    local refused = guard.refusal(size)
    if refused then
      return nil, guard.named(refused, outgoing)
    end
    stand = stand .. size
    local cursor, child =
      ask_listed(tag, prefix, outgoing, record.resume(core.purge_asked, stand), count)
    if child or cursor ~= "0" then
      return { child = child, left = cursor ~= "0" and record.bookmark(stand, cursor) or nil }
    end
  end
  local cursor, child = ask_noted(tag, k.deps_awaited, next_noted, count)
  return { child = child, left = cursor ~= "0" and record.bookmark(noted, cursor) or nil }
end
