-- The same cuts as propose_cuts.sql, of a column that seems to have more distinct values than bins: where nearly every
-- value is its own, to count rows by value before they are sorted only costs time.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {max_bin}     most bins
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row a part, ascending: its lowest value, and how many distinct values there are up to its end. All but the
--      first are cuts, if there are more than {max_bin} values after all

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
starts AS (
    SELECT MIN(value) AS value, MAX(n_values) AS n_values
    FROM ranked
    GROUP BY rows_before * {max_bin} // (SELECT COUNT(*) FROM present)
)
SELECT {physical} AS cut, n_values
FROM starts
ORDER BY value ASC
