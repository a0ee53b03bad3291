-- The heart of it: how much gradient lies in each bin of the features, node by node. The splits of a whole level are
-- chosen from this, and nothing larger ever leaves the database. The rows of the wanted nodes are read once for a group
-- of features (of two siblings only the lighter is wanted; the other is parent - sibling), and each goes to the sums of
-- all of them. Groups run side by side, joined by UNION ALL.
--
-- in:  {rows}        the tables of bins, gradients and nodes, joined by position:  bin_0, ..., {g}, {h}, node
--      {is_asked}    such as  node BETWEEN 7 AND 10; TRUE in the root
--      {keys}        a feature each:  key_3 := CAST(node - 7 AS USMALLINT) * 255 + bin_3
--                    Node and bin make one small integer, which is grouped faster than two columns. Nodes are numbered so
--                    that those wanted follow each other, and features with few bins all have the same steps. A node's
--                    last bin may share its key with the next node's first: the node's own sums tell them apart.
--      {sums}        sum_by_bin.sql for each feature, joined by UNION ALL
-- out: one row a feature, node and bin that has rows

(
WITH asked AS MATERIALIZED (
    SELECT struct_pack({keys}) AS keys, {g} AS g, {h} AS h
    FROM {rows}
    WHERE {is_asked}
)
{sums}
)
