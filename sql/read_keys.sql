-- Read a dimension's sums by node and key beside the codes of the key, for histograms.sql: it sums them by bin of each
-- attribute, in as many rows as there are keys, not facts.
--
-- in:  {sums}        by sum_by_key.sql
--      {dimension}   its number there
--      {keys}        key, bin_3, ...
--      {n_keys}      how many
--      {first}       the number of the first node
--      {columns}     keys.bin_3, ...
-- out: one row per node and key: node, g, h, bin_3, ...

SELECT sums.key // {n_keys} + {first} AS node, sums.g, sums.h, {columns}
FROM {sums} AS sums JOIN {keys} AS keys ON keys.key = sums.key % {n_keys}
WHERE sums.feature = {dimension}
