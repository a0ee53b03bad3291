-- Sort the rows by the leaves of the first tree, once: later trees split in similar places, so the rows of a node then
-- lie in few chunks, and the others are skipped. Sums are exact in any order.
--
-- in:  {table}       the table of bins, or of margins
--      {nodes}       node, row by row in the same order
-- out: {in_order}    the table in the new order, the same for both

CREATE TEMP TABLE {in_order} AS
SELECT {table}.*
FROM {table} POSITIONAL JOIN {nodes}
ORDER BY node ASC, {table}.rowid ASC
