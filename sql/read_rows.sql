-- Read the rows of the wanted nodes in batches, which a kernel adds up by node and bin while the database computes the
-- next ones: with few threads that is faster than histograms.sql. The facts of a star have the keys of the dimensions
-- instead of the codes of their attributes.
--
-- in:  {columns}     the place of the node, g, h, bin_0, ..., key_0, ...
--      {rows}        the tables of bins, gradients and nodes, joined by position
--      {is_asked}    such as  node BETWEEN 7 AND 10; TRUE in the root
--      {in_order}    nothing, or ORDER BY position, where the rows may have lost their order
-- out: the columns

SELECT {columns}
FROM {rows}
WHERE {is_asked}
{in_order}
