-- Every feature as the number of the bin that its value falls in; stored once, together with the label, the weight and
-- whatever else the fit needs of a row, so that the rows of all later tables have one order.
--
-- in:  {rows}        value_0, bin_0, ..., label, weight, ..., at the end of the search
--      {codes}       a feature each:  CASE WHEN value_0 IS NULL THEN 3 ELSE bin_0 END AS bin_0
--      {roles}       label, weight, ..., which keep the type that they have in the source if it is narrower than DOUBLE
--      {in_order}    nothing, or ORDER BY the position in the source, where rows are drawn, or rank, by it
-- out: {bins}        bin_0, bin_1, ..., label, weight, ...

CREATE TEMP TABLE {bins} AS
SELECT {codes}, {roles}
FROM ({rows})
{in_order}
