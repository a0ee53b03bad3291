-- Move the rows of split nodes to their children. One statement carries out all splits of a level, once histograms of
-- the children are asked for, and numbers the nodes asked for in a row, so that node BETWEEN finds their rows.
-- Say nodes 1 and 2 are split into 3, 4 and 5, 6, and histograms of 4 and 5 are asked for: those get the numbers 0 and 1,
-- and 3 and 6 get 2 and 3. Where rows go on from the table of nodes, new numbers follow the old ones.
--
-- in:  {rows}        the table of bins, which all threads read; where few splits are new, joined by position with that of
--                    nodes, which one thread reads
--      {moves}       all splits of the tree:  CASE WHEN bin_7 < 12 THEN CASE WHEN bin_3 < 5 THEN 2 ELSE 0 END ... END,
--                    or the new ones:  CASE node WHEN 1 THEN CASE WHEN bin_3 < 5 THEN 4 ELSE 2 END ... ELSE node END
--                    (numbers have the narrowest type that holds them all)
--      {in_order}    nothing, or ORDER BY the rows of the bins, where preserve_insertion_order is off
-- out: {nodes}       node, row by row in the order of the bins

CREATE OR REPLACE TEMP TABLE {nodes} AS
SELECT {moves} AS node
FROM {rows}
{in_order}
