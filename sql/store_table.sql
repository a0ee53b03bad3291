-- Copy what is needed of a table of a star: of a dimension its key and its attributes, of the facts their own columns,
-- and for each dimension the number of the row that their key finds.
--
-- in:  {table}       the new table
--      {columns}     such as  source."id" AS on_0, source."seats" AS value_3, or of the facts  source."delay" AS label,
--                    COALESCE(branch_0.row_id, -1) AS row_0 (-1: the key finds none)
--      {source}      the user's table, view or query
--      {joins}       of the facts, joins with the copied dimensions; of a dimension, with those that its own keys find
--      {in_order}    nothing, or ORDER BY the position in the source, where rows are sampled or ranked by it
-- out: {table}       the columns, and of a dimension the numbers of its rows

CREATE TEMP TABLE {table} AS
SELECT {columns}
FROM {source} AS source
{joins}
{in_order}
