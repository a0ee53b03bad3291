-- Rows in the order of the leaves that the first tree has put them in, once: later trees ask much the same, so the rows of
-- a node then mostly lie in a few chunks, and all others are passed over. Sums are exact in any order.
--
-- in:  {table}       the table of bins, or of margins
--      {nodes}       node, row by row in the same order
-- out: {in_order}    the table in the new order, the same for both

CREATE TEMP TABLE {in_order} AS
SELECT {table}.*
FROM {table} POSITIONAL JOIN {nodes}
ORDER BY node ASC, {table}.rowid ASC
