-- Where to cut one numeric feature: global quantile proposals (XGBoost paper, section 3.2).
-- Up to {max_bin} distinct values, each but the lowest is a cut. With more, a value is a cut if an even split of the
-- ranks into {max_bin} parts has a boundary between the value before it and itself. Integers only, so that it can be
-- repeated exactly anywhere.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {max_bin}     most bins
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row a cut, ascending

WITH present AS (
    SELECT {column} AS value
    FROM {source} AS source
    WHERE {is_present} AND {sample}
),
counted AS (
    SELECT value, COUNT(*) AS n
    FROM present
    GROUP BY value
),
ranked AS (
    SELECT
        value,
        SUM(n) OVER (ORDER BY value) - n AS rows_before,
        SUM(n) OVER () AS n_rows,
        COUNT(*) OVER () AS n_values
    FROM counted
),
parted AS (
    SELECT value, n_values, rows_before * {max_bin} // n_rows AS part
    FROM ranked
),
compared AS (
    SELECT value, n_values, part, LAG(part) OVER (ORDER BY value) AS part_before
    FROM parted
)
SELECT {physical} AS cut
FROM compared
WHERE part_before IS NOT NULL AND (n_values <= {max_bin} OR part > part_before)
ORDER BY value
