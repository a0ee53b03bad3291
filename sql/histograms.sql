-- The heart of it: how much gradient lies in each bin of one feature, node by node. The splits of a whole level are
-- chosen from this, and nothing larger ever leaves the database. It runs once a level, for all features, joined by
-- UNION ALL.
--
-- in:  {bins}        bin_0, bin_1, ...
--      {gradients}   g, h
--      {nodes}       node
--      {feature}     the feature's number, {bin} its column of bins
--      {open_nodes}  the nodes wanted
-- out: one row a node and bin that has rows

SELECT {feature} AS feature, node, {bin} AS bin, SUM(g) AS g, SUM(h) AS h
FROM {bins} POSITIONAL JOIN {gradients} POSITIONAL JOIN {nodes}
WHERE node IN ({open_nodes})
GROUP BY node, {bin}
