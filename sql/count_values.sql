-- Count the rows of each value of one numeric feature, for cuts of a table whose rows lie in several databases.
--
-- in:  {source}      the table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row per distinct value, ascending: value, n

WITH counted AS (
    SELECT {column} AS value, COUNT(*) AS n
    FROM {source} AS source
    WHERE {is_present} AND {sample}
    GROUP BY 1
)
SELECT {physical} AS value, n
FROM counted
ORDER BY counted.value ASC
