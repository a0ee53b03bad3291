-- Read some rows of the numeric features. From their values comes the range of the cells of count_cells.sql, and
-- whether a feature has more distinct values than bins. Which rows are drawn changes no cut.
--
-- in:  {source}   the user's table, view or query
--      {values}   one per feature, as a plain number: days, microseconds, ...:  source."x" AS "0"
--      {n_rows}   how many rows
-- out: the rows

SELECT {values}
FROM {source} AS source
USING SAMPLE reservoir({n_rows} ROWS) REPEATABLE (0)
