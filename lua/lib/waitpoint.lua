-- Waitpoints `ff:wp:<tag>:<wp>` and the signed tokens that let a caller signal one.

-- The keys of a waitpoint: its record, its condition, its signals.
function waitpoint.keys(tag, id)
  local key = "ff:wp:" .. tag .. ":" .. id
  return key, key .. ":condition", key .. ":signals"
end
