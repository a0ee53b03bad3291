-- Count the rows and the missing values of each feature (NULL and NaN alike), and estimate how many distinct values it
-- has, by which the faster query for its cuts is chosen.
--
-- in:  {source}      the user's table, view or query
--      {counts}      one per feature:  , COUNT(*) FILTER (WHERE source."x" IS NULL) AS "0"
--      {distinct}    one per feature:  , approx_count_distinct(source."x"), or 0
-- out: one row

SELECT COUNT(*) AS n_rows{counts}{distinct}
FROM {source} AS source
