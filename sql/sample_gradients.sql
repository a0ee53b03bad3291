-- Set the gradients to zero in the rows that a tree's sample leaves out. The rows stay, so that tables still meet by
-- position.
--
-- in:  {gradients}   g_0, h_0, ...
--      {read}        those that the tree is grown on
--      {draw}        uniform in [0, 1), a hash of the row's position and a key
--      {numbers}     such as  CASE WHEN draw < 0.5 THEN g_0 ELSE 0 END AS drawn_g_0
--      {in_order}    nothing, or ORDER BY position, where preserve_insertion_order is off
-- out: {sampled}     drawn_g_0, drawn_h_0, ..., row by row in the same order

CREATE OR REPLACE TEMP TABLE {sampled} AS
SELECT {numbers}
FROM (
    SELECT rowid AS position, {read}, {draw} AS draw
    FROM {gradients}
)
{in_order}
