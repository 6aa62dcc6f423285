-- Inbound edge groups. `all_of` follows the child's own counters; `any_of` and `quorum` are decided
-- here. Beside the contract's fields, a group of these two records each upstream from which an edge
-- was applied (`upstream:<eid>`), and how many edges repeat an upstream (`repeats`,
-- `repeats_succeeded`, `repeats_lost`): an upstream counts once, however many edges lead from it.

local VARIANTS = { all_of = true, any_of = true, quorum = true }
local FIRED = { satisfied = true, impossible = true, cancelled = true }
local BUCKET = { success = "succeeded", skipped = "skipped" }

edge_group.PENDING = "pending"

-- A policy as requested, checked: { policy_variant, on_satisfied, k }, or nil and a refusal.
function edge_group.policy(variant, on_satisfied, k)
  if not VARIANTS[variant] then
    return nil, err("invalid_input", "unsupported_policy_variant: " .. text.present(variant, ""))
  end
  local needed = number.finite(k) or 0
  if variant == "quorum" and needed < 1 then
    return nil, err("invalid_input", "quorum k must be >= 1")
  end
  if variant == "quorum" and needed ~= math.floor(needed) then
    return nil, err("invalid_input", "quorum k must be a whole number")
  end
  if variant ~= "all_of" and on_satisfied ~= "cancel_remaining" and on_satisfied ~= "let_run" then
    return nil, err("invalid_input",
      "on_satisfied required for any_of/quorum: cancel_remaining | let_run")
  end
  return {
    policy_variant = variant,
    on_satisfied = text.present(on_satisfied, ""),
    k = needed,
  }
end

-- The fields of a new group with this policy, but for `n`, the number of its edges.
function edge_group.declaration(wanted, now)
  return {
    "policy_variant", wanted.policy_variant, "on_satisfied", wanted.on_satisfied, "k", wanted.k,
    "succeeded", 0, "failed", 0, "skipped", 0, "group_state", edge_group.PENDING,
    "created_at", now,
  }
end

-- The index entry of a sibling-cancel job, or nil and the contract's refusal.
function edge_group.tuple(a)
  if not text.set(a.flow_id) or not text.set(a.downstream_eid) then
    return nil, err("invalid_args", "flow_id and downstream_eid required")
  end
  return a.flow_id .. "|" .. a.downstream_eid
end

-- Whether the group is decided by its own counters.
function edge_group.counted(group)
  return group ~= nil and (group.policy_variant == "any_of" or group.policy_variant == "quorum")
end

function edge_group.fired(group)
  return FIRED[group.group_state] == true
end

local COUNTS = {
  "n", "succeeded", "failed", "skipped", "repeats", "repeats_succeeded", "repeats_lost",
}

edge_group.READ = { "policy_variant", "group_state", "on_satisfied", "k" }
local READ = edge_group.READ
for i = 1, #COUNTS do
  READ[#READ + 1] = COUNTS[i]
end

-- The group at `key`, as far as decisions need it, with its field for one upstream if
-- `upstream_eid` is given; nil if there is none, or nil and the refusal of a key of another type.
-- There is a field for every upstream, so a call that reads a group once per edge must not read all
-- of them.
function edge_group.read(key, upstream_eid)
  if not upstream_eid then
    return record.select(key, READ)
  end
  return record.part(key, text.append({ edge_group.note_of(upstream_eid) }, READ))
end

-- What the end of an edge needs of an all-of group, which is most groups.
local ALL_OF = { "policy_variant", "group_state", "succeeded", "failed" }

-- The group at `key` as far as the end of one edge needs it; otherwise as edge_group.read.
function edge_group.read_for_edge(key)
  local group, refused = record.select(key, ALL_OF)
  if edge_group.counted(group) then
    return record.select(key, READ)
  end
  return group, refused
end

-- The field that records that an edge from this upstream was applied.
function edge_group.note_of(upstream_eid)
  return upstream_eid and "upstream:" .. upstream_eid
end

-- The group of the child with this core, nil when it has none.
function edge_group.of_child(core_key, core)
  local flow_id = dependency.flow_of(core_key, core)
  if not flow_id or not text.set(core.execution_id) then
    return nil
  end
  local prefix = flow.prefix(text.tag(core_key), flow_id)
  local key = prefix .. ":edgegroup:" .. core.execution_id
  local group, refused = edge_group.read(key)
  return group, not refused and key or nil
end

local function threshold(group)
  if group.policy_variant == "any_of" then
    return 1
  end
  return math.max(1, number.either(group.k, 1))
end

-- The numbers of a group; missing ones are 0.
function edge_group.counts(group)
  local counts = {}
  for _, name in ipairs(COUNTS) do
    counts[name] = number.floor(group[name], 0)
  end
  return counts
end

-- The verdict over `counts` if `declared` edges are known to lead to the child. A group that can
-- still get the edges it needs is never impossible.
local function verdict(group, counts, declared)
  local needed = threshold(group)
  local upstreams = math.max(counts.n, declared) - counts.repeats
  local lost = counts.failed + counts.skipped - counts.repeats_lost
  if counts.succeeded - counts.repeats_succeeded >= needed then
    return "satisfied"
  end
  if upstreams >= needed and lost > upstreams - needed then
    return "impossible"
  end
  return edge_group.PENDING
end

-- The verdict over a group with the counts in `fields` = { name, value, … } in place of its own.
function edge_group.verdict_over(group, fields)
  local stored = { policy_variant = group.policy_variant, k = group.k }
  for i = 1, #fields, 2 do
    stored[fields[i]] = fields[i + 1]
  end
  return verdict(stored, edge_group.counts(stored), 0)
end

-- What the end of one edge does to the group: the word of the reply and the fields to write, or
-- nil and a refusal.
function edge_group.count(group, dep, outcome, declared, now)
  local counts = edge_group.counts(group)
  local bucket = BUCKET[outcome] or "failed"
  counts[bucket] = counts[bucket] + 1
  local fields = { bucket, counts[bucket] }
  if dep.repeats_upstream == "1" then
    local repeated = bucket == "succeeded" and "repeats_succeeded" or "repeats_lost"
    counts[repeated] = counts[repeated] + 1
    fields[3], fields[4] = repeated, counts[repeated]
  end
  local resolved = counts.succeeded + counts.failed + counts.skipped
  if resolved > counts.n then
    return nil, err("invariant_violation", "edgegroup counters exceed n: "
      .. number.digits(resolved) .. "/" .. number.digits(counts.n))
  end
  if edge_group.fired(group) then
    return "already_fired", fields
  end
  local word = verdict(group, counts, declared)
  if word ~= edge_group.PENDING then
    text.append(fields, { "group_state", word })
  end
  if word == "satisfied" then
    text.append(fields, { "satisfied_at", now })
  end
  return word, fields
end

-- What further edges, from these upstreams, write to the group, and which of them, by position,
-- repeat an upstream. `group` has a field for every one of them that it knows. `in_all` = how many
-- edges the group has then, those that are still to come included; unless given, none are.
function edge_group.grow(group, upstreams, in_all)
  local repeats = {}
  if group == nil or not text.set(group.policy_variant) then
    return { "policy_variant", "all_of", "n", in_all or #upstreams, "succeeded", 0,
      "group_state", edge_group.PENDING }, repeats
  end
  local counts = edge_group.counts(group)
  local fields = { "n", in_all or counts.n + #upstreams }
  if not edge_group.counted(group) then
    if group.group_state == "satisfied" then
      text.append(fields, { "group_state", edge_group.PENDING })
    end
    return fields, repeats
  end
  local repeated, noted = 0, {}
  for i = 1, #upstreams do
    local note = edge_group.note_of(upstreams[i])
    if group[note] or noted[note] then
      repeated, repeats[i] = repeated + 1, true
    else
      noted[note], fields[#fields + 1], fields[#fields + 2] = true, note, "1"
    end
  end
  if repeated > 0 then
    text.append(fields, { "repeats", counts.repeats + repeated })
  end
  return fields, repeats
end

-- What re-arming `lost` edges of a replayed child, `repeated` of them repeats, writes to the group,
-- and whether the group is met without them: a late edge may have succeeded since.
function edge_group.rearm(group, lost, repeated)
  local counts = edge_group.counts(group)
  local from_failed = math.min(lost, counts.failed)
  local from_skipped = math.min(lost - from_failed, counts.skipped)
  local met = edge_group.counted(group)
    and counts.succeeded - counts.repeats_succeeded >= threshold(group)
  local fields = {
    "failed", counts.failed - from_failed, "group_state", met and "satisfied" or edge_group.PENDING,
  }
  if group.skipped then
    text.append(fields, { "skipped", counts.skipped - from_skipped })
  end
  if repeated > 0 then
    text.append(fields, { "repeats_lost", math.max(0, counts.repeats_lost - repeated) })
  end
  return fields, met
end

-- The `siblings` between two positions that still run, at most `limit` of them.
local function running(tag, siblings, first, last, limit)
  local open = {}
  for place = first, last do
    local sibling = siblings[place]
    local phase = record.peek("ff:exec:" .. tag .. ":" .. sibling .. ":core", "lifecycle_phase")
    if text.set(phase) and phase ~= "terminal" then
      open[#open + 1] = sibling
      if #open >= limit then
        break
      end
    end
  end
  return open
end

-- The siblings of a sibling-cancel job that still run, at most `limit` of them: those listed after
-- the sibling `after`, if that is given. Also whether any sibling of the job runs.
function edge_group.open_siblings(tag, group, limit, after)
  local siblings, passed = text.split(group.cancel_siblings_pending_members, "|"), 0
  for place = 1, text.set(after) and #siblings or 0 do
    passed = siblings[place] == after and place or passed
  end
  local open = running(tag, siblings, passed + 1, #siblings, limit)
  return open, #open > 0 or #running(tag, siblings, 1, passed, 1) > 0
end

-- Deletes a sibling-cancel job; answers whether it was in the index.
function edge_group.drain(pending_key, group_key, tuple)
  call("HDEL", group_key, "cancel_siblings_pending_flag", "cancel_siblings_pending_members")
  return call("SREM", pending_key, tuple) == 1
end
