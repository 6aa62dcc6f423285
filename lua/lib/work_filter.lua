-- Work filters: the namespace and the kinds that a worker takes, as one text. Each line is
-- `namespace TAB kind`; an empty namespace or kind stands for all. The text begins and ends with a
-- line break, so that a plain search decides: names have no control characters.

work_filter.BYTES_MAX = 65536

-- Whether a worker with this filter takes an execution.
function work_filter.suits(filter, namespace, kind)
  return (filter:find("\n" .. namespace .. "\t" .. kind .. "\n", 1, true)
    or filter:find("\n\t" .. kind .. "\n", 1, true)
    or filter:find("\n" .. namespace .. "\t\n", 1, true)
    or filter:find("\n\t\n", 1, true)) and true or false
end

-- Whether it takes executions of this namespace, of some kind.
function work_filter.serves(filter, namespace)
  return (filter:find("\n" .. namespace .. "\t", 1, true) or filter:find("\n\t", 1, true))
    and true or false
end

-- The refusal of a text that does not begin with a line break, or is too long.
function work_filter.refusal()
  return err("invalid_input", "work_filter must be lines of "
    .. number.digits(work_filter.BYTES_MAX) .. " bytes at most, each with a namespace and a kind")
end
