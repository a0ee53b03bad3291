-- Rows of the nodes that were split move to the left or the right child. Runs when something is asked of the children,
-- which are numbered so that those asked for follow each other.
--
-- in:  {rows}        the table of bins; where few splits are new, with that of nodes, joined by position
--      {moves}       the tree so far:  CASE WHEN bin_7 < 12 THEN CASE WHEN bin_0 < 2 THEN 0 ELSE 2 END ... ELSE 1 END,
--                    or the new splits:  CASE node WHEN 3 THEN CASE WHEN bin_7 < 12 THEN 7 ELSE 8 END ... ELSE node END
--                    (numbers are of the narrowest type that has them all)
--      {in_order}    nothing, or ORDER BY the rows of the bins, where DuckDB has been told not to keep their order
-- out: {nodes}       node, row by row in the order of the bins

CREATE OR REPLACE TEMP TABLE {nodes} AS
SELECT {moves} AS node
FROM {rows}
{in_order}
