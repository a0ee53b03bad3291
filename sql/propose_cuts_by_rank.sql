-- Find the same cuts as propose_cuts.sql, for a column that seems to have more distinct values than bins. It ranks rows
-- directly: where nearly every value is distinct, counting rows by value first doubles the time.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {max_bin}     most bins
--      {physical}    the value as a plain number: days, microseconds, ...
--      {highest}     the same of the highest value of a part
-- out: one row per part, ascending: its lowest and its highest value, and the number of distinct values up to its end.
--      All lowest but the first are cuts, provided that there are more than {max_bin} distinct values in all

WITH present AS MATERIALIZED (
    SELECT {column} AS value
    FROM {source} AS source
    WHERE {is_present} AND {sample}
),
ranked AS (
    SELECT
        value,
        rank() OVER (ORDER BY value ASC) - 1 AS rows_before,
        dense_rank() OVER (ORDER BY value ASC) AS n_values
    FROM present
),
parts AS (
    SELECT MIN(value) AS value, MAX(value) AS highest, MAX(n_values) AS n_values
    FROM ranked
    GROUP BY rows_before * {max_bin} // (SELECT COUNT(*) FROM present)
)
SELECT {physical} AS lowest, {highest} AS highest, n_values
FROM parts
ORDER BY value ASC
