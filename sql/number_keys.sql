-- Number the rows of a dimension that can be told apart: rows with equal codes in all attributes become one key.
--
-- in:  {codes}       row_id, bin_3, ...
--      {columns}     bin_3, ...
-- out: {keys}        key, bin_3, ..., row_ids (a list)

CREATE TEMP TABLE {keys} AS
SELECT row_number() OVER () - 1 AS key, *
FROM (
    SELECT {columns}, list(row_id) AS row_ids
    FROM {codes}
    GROUP BY ALL
)
