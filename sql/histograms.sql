-- The heart of it: how much gradient lies in each bin of one feature, node by node. The splits of a whole level are
-- chosen from this, and nothing larger ever leaves the database. It runs once a level, for all features, joined by
-- UNION ALL. One small integer as the key, first key of the node + bin, is grouped twice as fast as two columns.
--
-- in:  {bins}        bin_0, bin_1, ...
--      {gradients}   {g}, {h}
--      {open_nodes}  {first_key}, NULL where the row's node is not wanted
--      {feature}     the feature's number, {bin} its column of bins
-- out: one row a node and bin that has rows

SELECT {feature} AS feature, {first_key} + {bin} AS key, SUM({g}) AS g, SUM({h}) AS h
FROM {bins} POSITIONAL JOIN {gradients} POSITIONAL JOIN {open_nodes}
WHERE {first_key} IS NOT NULL
GROUP BY {first_key} + {bin}
