-- Store every feature as bin numbers by the cuts of the next tree.
--
-- in:  {rows}        position, value_0, bin_0, ..., at the end of the search
--      {numbers}     one per feature:  CASE WHEN value_0 IS NULL THEN 3 ELSE bin_0 END AS bin_0
-- out: {codes}       bin_0, bin_1, ..., row by row in the order of the stored columns

CREATE TEMP TABLE {codes} AS
SELECT {numbers}
FROM ({rows})
ORDER BY position ASC
