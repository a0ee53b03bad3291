-- The tree is done: each row's margin moves by the value of the leaf that it is in.
--
-- in:  {rows}        the tables of bins and margins, joined by position; of nodes too, if {leaves} starts from them
--      {table}       the margins as they are
--      {margin}      the column of margins
--      {leaves}      a leaf each:  CASE WHEN bin_7 < 12 THEN CASE WHEN bin_0 < 2 THEN 0.25 ELSE -0.1 END ... END
--      {in_order}    nothing, or ORDER BY the rows of the bins, where DuckDB has been told not to keep their order
-- out: {margins}     {margin}, row by row in the order of the bins; and what else the table has

CREATE OR REPLACE TEMP TABLE {margins} AS
SELECT {table}.* REPLACE ({margin} + {leaves} AS {margin})
FROM {rows}
{in_order}
