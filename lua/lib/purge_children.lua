-- Whether the children of an execution still need it. It may have tens of thousands, so they are
-- asked in pages, and the record remembers which page is next: those of earlier pages have their
-- answer, which nothing takes back.

-- Whether a child has no use for this end yet: its edge is unresolved, or it is one that a replay
-- of the child would open again.
local function waits(tag, child, edge_id)
  local front = dependency.front(tag, child)
  local phase = record.peek(front .. ":core", "lifecycle_phase")
  local resolution = record.peek(front .. ":dep:" .. edge_id, "state")
  return phase and resolution ~= "satisfied"
    and (phase == "terminal" or resolution ~= "impossible")
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
  local stand = text.present(core.completed_at, "") .. ":" .. call("SCARD", outgoing) .. ":"
  local asked = text.present(core.purge_asked, "")
  local cursor = asked:sub(1, #stand) == stand and asked:sub(#stand + 1) or "0"
  local page = call("SSCAN", outgoing, text.is_cursor(cursor) and cursor or "0",
    "COUNT", number.digits(limit))
  return {
    child = waiting(tag, prefix, page[2]),
    left = page[1] ~= "0" and stand .. page[1] or nil,
  }
end
