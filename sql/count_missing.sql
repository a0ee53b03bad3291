-- Count the rows and the missing values of each feature (NULL and NaN alike).
--
-- in:  {source}      the user's table, view or query
--      {counts}      one per feature:  , COUNT(*) FILTER (WHERE source."x" IS NULL) AS "0"
-- out: one row

SELECT COUNT(*) AS n_rows{counts}
FROM {source} AS source
