-- How many rows there are, and which features ever have a missing value (NULL and NaN are one and the same).
--
-- in:  {source}      the user's table, view or query
--      {counts}      a feature each:  COUNT(*) FILTER (WHERE source."x" IS NULL) AS "0"
-- out: one row

SELECT COUNT(*) AS n_rows, {counts}
FROM {source} AS source
