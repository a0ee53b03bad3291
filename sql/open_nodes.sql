-- Which rows the next histograms are made of: those of the wanted nodes, numbered in steps of the number of bins, so that
-- node and bin make one key (features with few bins all have the same steps). Of two siblings only the lighter is wanted; the other is parent - sibling.
--
-- in:  {bins}
--      {nodes}       node
--      {first_keys}  a number of bins each:  CAST(CASE node WHEN 5 THEN 256 ... END AS USMALLINT) AS first_key_256,
--                    in the smallest integer type that holds all keys
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {open_nodes}  first_key_256, ..., row by row in the order of {bins}; NULL in all other nodes

CREATE TEMP TABLE {open_nodes} AS
SELECT {first_keys}
FROM {bins} POSITIONAL JOIN {nodes}
{in_order}
