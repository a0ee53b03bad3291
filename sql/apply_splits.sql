-- Rows of the nodes that were split move to the left or the right child.
--
-- in:  {bins}
--      {nodes}       node
--      {moves}       a split each:  WHEN 3 THEN CASE WHEN bin_7 < 12 THEN 7 ELSE 8 END
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {next_nodes}  node, row by row in the order of {bins}

CREATE TEMP TABLE {next_nodes} AS
SELECT CAST(CASE node {moves} ELSE node END AS INTEGER) AS node
FROM {bins} POSITIONAL JOIN {nodes}
{in_order}
