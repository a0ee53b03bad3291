-- Find the cuts of one numeric feature for the next tree: quantiles weighted by h (XGBoost paper, section 3.3).
-- The rank of a value is the share of h below it. Ranks are divided evenly into {max_bin} parts, and each part but the
-- first starts at a cut: the lowest value whose rank is in it. With at most {max_bin} distinct values, each is a part
-- of its own. Sums of h are exact, and the rest is IEEE arithmetic in a fixed order, so every engine finds the same
-- cuts.
--
-- in:  {bins}        value_0, ...
--      {gradients}   {h}
--      {value}       the feature's column, NULL where it is missing
--      {max_bin}     most bins
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row per cut, ascending

WITH weighed AS (
    SELECT {value} AS value, SUM({h}) AS h
    FROM {bins} POSITIONAL JOIN {gradients}
    WHERE {value} IS NOT NULL
    GROUP BY 1
),
ranked AS (
    SELECT
        value,
        row_number() OVER (ORDER BY value ASC) - 1 AS place,
        COUNT(*) OVER () AS n_values,
        SUM(h) OVER (ORDER BY value ASC) - h AS before,
        SUM(h) OVER () AS total
    FROM weighed
),
parted AS (
    SELECT
        value,
        CASE
            WHEN n_values <= {max_bin} THEN place
            WHEN total > 0 THEN LEAST(FLOOR(before * CAST({max_bin} AS DOUBLE) / total), {max_bin} - 1)
            ELSE 0
        END AS part
    FROM ranked
),
starts AS (
    SELECT MIN(value) AS value
    FROM parted
    GROUP BY part
    ORDER BY value ASC
    OFFSET 1
)
SELECT {physical} AS cut
FROM starts
ORDER BY value ASC
