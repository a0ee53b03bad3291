-- Which rows the next histograms are made of: those of the wanted nodes, numbered in steps of the number of bins, so that
-- node and bin make one key. Of two siblings only the lighter is wanted; the other is parent - sibling.
--
-- in:  {bins}
--      {nodes}       node
--      {first_keys}  a wanted node each:  WHEN 5 THEN 256
--      {key_type}    the smallest integer type that holds all keys
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {open_nodes}  first_key, row by row in the order of {bins}; NULL in all other nodes

CREATE TEMP TABLE {open_nodes} AS
SELECT CAST(CASE node {first_keys} END AS {key_type}) AS first_key
FROM {bins} POSITIONAL JOIN {nodes}
{in_order}
