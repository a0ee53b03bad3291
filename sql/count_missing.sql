-- How many rows there are, which features ever have a missing value (NULL and NaN are one and the same), and about how
-- many values a numeric feature has, by which the faster way to its cuts is chosen.
--
-- in:  {source}      the user's table, view or query
--      {counts}      a feature each:  COUNT(*) FILTER (WHERE source."x" IS NULL) AS "0"
--      {distinct}    a feature each:  approx_count_distinct(source."x"), or 0
-- out: one row

SELECT COUNT(*) AS n_rows, {counts}, {distinct}
FROM {source} AS source
