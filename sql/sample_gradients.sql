-- A tree that is grown on a sample sees zeros everywhere else.
--
-- in:  {gradients}   g_0, h_0, ...; {pair} the two that the tree is grown on, AS g, AS h
--      {draw}        uniform in [0, 1), from a row's position and a key
--      {g}, {h}      such as  CASE WHEN draw < 0.5 THEN g ELSE 0 END
--      {in_order}    nothing, or ORDER BY position, where DuckDB has been told not to keep the order of rows
-- out: {sampled}     g, h, row by row in the same order

CREATE OR REPLACE TEMP TABLE {sampled} AS
SELECT {g} AS g, {h} AS h
FROM (
    SELECT rowid AS position, {pair}, {draw} AS draw
    FROM {gradients}
)
{in_order}
