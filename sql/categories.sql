-- List the categories of one feature.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
-- out: one row per category

SELECT DISTINCT {column} AS category
FROM {source} AS source
WHERE {column} IS NOT NULL
