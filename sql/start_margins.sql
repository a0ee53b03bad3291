-- Before the first tree every row has the same margin, unless the user brings one for each.
--
-- in:  {bins}        label, weight, ...
--      {margin}      the base score, on the margin's scale, and its name
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {margins}     margin, row by row in the order of {bins}

CREATE TEMP TABLE {margins} AS
SELECT {margin}
FROM {bins}
{in_order}
