-- Find the cuts of one numeric feature: global quantile proposals (XGBoost paper, section 3.2).
-- The ranks of the rows are divided evenly into {max_bin} parts, and each part but the first starts at a cut: the
-- lowest value whose first row is in it. With at most {max_bin} distinct values, each is a part of its own. All numbers
-- are integers, so every engine finds the same cuts.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {n}           nothing, or where a row stands for several rows of the data, how many:  , source.drawn AS n
--      {count}       COUNT(*), or the sum of n
--      {max_bin}     most bins
--      {physical}    the value as a plain number: days, microseconds, ...
--      {highest}     the same of the highest value of a part
-- out: one row per part, ascending: its lowest value, a cut but for that of the first part, and its highest, which is
--      the value before the next cut

WITH present AS (
    SELECT {column} AS value{n}
    FROM {source} AS source
    WHERE {is_present} AND {sample}
),
counted AS (
    SELECT value, {count} AS n
    FROM present
    GROUP BY value
),
totals AS (
    SELECT CAST(SUM(n) AS BIGINT) AS n_rows, COUNT(*) AS n_values
    FROM counted
),
ranked AS (
    SELECT value, CAST(SUM(n) OVER (ORDER BY value ASC) - n AS BIGINT) AS rows_before
    FROM counted
),
parted AS (
    SELECT value, CASE WHEN n_values <= {max_bin} THEN rows_before ELSE rows_before * {max_bin} // n_rows END AS part
    FROM ranked, totals
),
parts AS (
    SELECT MIN(value) AS value, MAX(value) AS highest
    FROM parted
    GROUP BY part
)
SELECT {physical} AS lowest, {highest} AS highest
FROM parts
ORDER BY value ASC
