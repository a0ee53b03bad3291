-- Read the facts of the wanted nodes of a star, for sums outside the database: their own codes, and instead of those of
-- attributes the keys of the dimensions. Batches are read while the database computes the next ones.
--
-- in:  {columns}     the place of the node, g, h, bin_0, ..., key_0, ...
--      {rows}        the tables of bins, gradients and nodes, joined by position
--      {is_asked}    such as  node BETWEEN 7 AND 10; TRUE in the root
-- out: the columns

SELECT {columns}
FROM {rows}
WHERE {is_asked}
