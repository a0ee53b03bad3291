-- Sum g and h by node and bin for a group of features: all that split finding needs, and the largest result that leaves
-- the database. The rows of the wanted nodes are read once for the whole group. Of two siblings only the lighter node
-- is wanted; the other is parent - sibling. Groups run in parallel, joined by UNION ALL.
--
-- in:  {rows}        the tables of bins, gradients and nodes, joined by position:  bin_0, ..., g_0, h_0, ..., node
--      {numbers}     what to sum:  g_0 AS g, h_0 AS h, or g and h of each output of a tree for several
--      {is_asked}    such as  node BETWEEN 7 AND 10; TRUE in the root
--      {keys}        one per feature:  key_3 := CAST(node - 7 AS USMALLINT) * 255 + bin_3
--                    Node and bin make one small integer, because grouping by it is faster than by two columns. With
--                    bins 0 to 255, bin 255 of a node has the key of the next node's bin 0. The sums of each node tell
--                    them apart, and 16 such nodes fit a perfect hash table. Features with few bins share a stride.
--      {sums}        sum_by_bin.sql for each feature, joined by UNION ALL
-- out: one row per feature and key that has rows

(
WITH asked AS MATERIALIZED (
    SELECT struct_pack({keys}) AS keys, {numbers}
    FROM {rows}
    WHERE {is_asked}
)
{sums}
)
