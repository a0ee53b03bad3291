-- Add the value of each row's leaf to its margin. The last level's splits are part of {leaves}: rows never move there.
--
-- in:  {rows}        the tables of bins, nodes (where few splits are new) and margins, joined by position
--      {table}       the table of margins
--      {margin}      its column
--      {leaves}      such as  CASE WHEN bin_7 < 12 THEN CASE WHEN bin_0 < 1 THEN 0.25 ELSE -0.1 END ... END, or the same
--                    from the table of nodes on:  CASE node WHEN 1 THEN CASE WHEN bin_0 < 1 THEN ... END ... END
--      {in_order}    nothing, or ORDER BY the rows of the bins, where preserve_insertion_order is off
-- out: {margins}     {margin}, row by row in the order of the bins, and the table's other columns

CREATE OR REPLACE TEMP TABLE {margins} AS
SELECT {table}.* REPLACE ({margin} + {leaves} AS {margin})
FROM {rows}
{in_order}
