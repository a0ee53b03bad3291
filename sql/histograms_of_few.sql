-- Sum g and h by node and bin for all features, of few rows: to plan one aggregate takes less time than one per feature
-- (see histograms.sql).
--
-- in:  {rows}        the tables of bins, gradients and nodes, joined by position:  bin_0, ..., {g}, {h}, node
--      {is_asked}    such as  node BETWEEN 7 AND 10; TRUE in the root
--      {first}       the first slot of the row's node, such as  CAST(node - 7 AS UBIGINT) * 2570; 0 in the root
--      {bins}        bin_0, bin_1, ...
--      {slots}       the first slot of each feature in a node:  0, 257, ...
-- out: one row per node and slot that has rows:  place of the node * slots + slot

SELECT key, SUM(g) AS g, SUM(h) AS h
FROM (
    SELECT {first} + UNNEST(CAST([{bins}] AS UBIGINT[])) + UNNEST(CAST('[{slots}]' AS UBIGINT[])) AS key,
        {g} AS g, {h} AS h
    FROM {rows}
    WHERE {is_asked}
)
GROUP BY key
