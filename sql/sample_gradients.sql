-- Set the gradients to zero in the rows that a tree's sample leaves out. The rows stay, so that tables still meet by
-- position.
--
-- in:  {gradients}   g_0, h_0, ...; {pair} the two that the tree is grown on, AS g, AS h
--      {draw}        uniform in [0, 1), a hash of the row's position and a key
--      {g}, {h}      such as  CASE WHEN draw < 0.5 THEN g ELSE 0 END
--      {in_order}    nothing, or ORDER BY position, where preserve_insertion_order is off
-- out: {sampled}     g, h, row by row in the same order

CREATE OR REPLACE TEMP TABLE {sampled} AS
SELECT {g} AS g, {h} AS h
FROM (
    SELECT rowid AS position, {pair}, {draw} AS draw
    FROM {gradients}
)
{in_order}
