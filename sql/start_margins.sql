-- Before the first tree every row has the same margin, unless the user brings one for each.
--
-- in:  {bins}        label, weight, ...
--      {columns}     the base score, on the margin's scale, and its name; if there is no other, label, weight, ... too
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {margins}     the same, row by row in the order of {bins}

CREATE TEMP TABLE {margins} AS
SELECT {columns}
FROM {bins}
{in_order}
