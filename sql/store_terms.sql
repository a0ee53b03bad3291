-- Store the terms of a ranking loss that are the same in every round, such as the order of a query's rows by label.
--
-- in:  {rows}        the rows with all columns and terms, and their position
--      {columns}     such as  label_place, gain, best
-- out: {fixed}       the same columns, row by row in the order of {bins}

CREATE TEMP TABLE {fixed} AS
SELECT {columns}
FROM ({rows})
ORDER BY position ASC
