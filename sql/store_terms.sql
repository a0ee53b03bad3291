-- Store terms, such as those of a ranking loss that are the same in every round: the order of a query's rows by label.
--
-- in:  {rows}        the rows with all columns and terms, and their position
--      {columns}     such as  label_rank, gain, best
--      {in_order}    ORDER BY position ASC, if the rows must be in that order
-- out: {fixed}       the columns, row by row

CREATE TEMP TABLE {fixed} AS
SELECT {columns}
FROM ({rows})
{in_order}
