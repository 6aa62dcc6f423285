-- Whether the children of an execution still need it. It may have tens of thousands, so they are
-- asked in pages, and the record remembers which page is next: those of earlier pages have their
-- answer, which nothing takes back.

-- Whether a child may still ask for this end: its edge is unresolved, or one that failed, which a
-- replay of the child opens again. Only a met edge is never asked about again.
local function waits(tag, child, edge_id)
  local front = dependency.front(tag, child)
  return record.peek(front .. ":core", "lifecycle_phase")
    and record.peek(front .. ":dep:" .. edge_id, "state") ~= "satisfied"
end

-- The first child of a page that waits, nil when none does.
local function waiting(tag, prefix, page)
  for _, edge_id in ipairs(page) do
    local child = record.peek(prefix .. ":edge:" .. edge_id, "downstream_execution_id")
    if child and waits(tag, child, edge_id) then
      return child
    end
  end
  return nil
end

-- The next page of children, about `limit`: { child = the first that waits, left = what the record
-- has to remember while there are further pages }. Another end, or another number of edges, starts
-- with the first page again.
function purge.children(tag, id, core, limit)
  if not text.set(core.flow_id) then
    return {}
  end
  local prefix = flow.prefix(tag, core.flow_id)
  local outgoing = prefix .. ":out:" .. id
  local stand = text.present(core.completed_at, "") .. ":" .. call("SCARD", outgoing)
  local page = call("SSCAN", outgoing, record.resume(core.purge_asked, stand),
    "COUNT", number.digits(limit))
  return {
    child = waiting(tag, prefix, page[2]),
    left = page[1] ~= "0" and record.bookmark(stand, page[1]) or nil,
  }
end
