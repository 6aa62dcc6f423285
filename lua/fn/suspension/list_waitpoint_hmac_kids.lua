-- Lists the key id that signs tokens on a partition, and those that still verify them, by name.
-- Keys: hmac (hash)
-- Arguments: none
-- Replies: OK
-- Errors: invalid_input
-- Bound: 2
define("ff_list_waitpoint_hmac_kids",
  { "hmac!=hash" },
  {},
  function(k)
    local keystore, now = record.read(k.hmac) or {}, number.now()
    local kids = {}
    for field, value in pairs(keystore) do
      local kid = field:match("^expires_at:(.*)$")
      if kid and waitpoint.is_verifying(value, now) then
        kids[#kids + 1] = kid
      end
    end
    table.sort(kids)
    local listed = { text.present(keystore.current_kid, ""), number.digits(#kids) }
    for _, kid in ipairs(kids) do
      text.append(listed, { kid, keystore["expires_at:" .. kid] })
    end
    return with_list("OK", listed)
  end, { reads_only = true })
