-- Attempt records: `ff:attempt:<tag>:<eid>:<index>`.

function attempt.key(tag, execution_id, index)
  return "ff:attempt:" .. tag .. ":" .. execution_id .. ":" .. number.text(index)
end

-- Closes an attempt; `more` = { field, value, … } (optional).
function attempt.finish(key, attempt_state, now, more)
  local fields = { "attempt_state", attempt_state, "ended_at", now }
  for i = 1, more and #more or 0 do
    fields[#fields + 1] = more[i]
  end
  record.write(key, fields)
end
