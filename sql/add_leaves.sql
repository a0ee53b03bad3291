-- The tree is done: each row's margin moves by the value of the leaf that it is in.
--
-- in:  {rows}        the tables of bins, nodes and margins, joined by position
--      {margin}      the column of margins
--      {leaves}      a leaf each:  CASE node WHEN 7 THEN 0.25 ... END; the last splits are followed here
--      {in_order}    nothing, or ORDER BY the rows of the bins, where DuckDB has been told not to keep their order
-- out: {next_margins}  {margin}, row by row in the order of the bins

CREATE TEMP TABLE {next_margins} AS
SELECT {margin} + {leaves} AS {margin}
FROM {rows}
{in_order}
