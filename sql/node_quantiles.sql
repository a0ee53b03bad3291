-- Compute the leaf values of absolute and quantile losses: a quantile of the residuals in each node, as -G/(H+λ) would
-- use their signs alone. It is interpolated between the two neighbours of rank alpha (n + 1).
--
-- in:  {rows}        node, h, and the columns of {value}
--      {value}       such as  label - margin
--      {alpha}
-- out: one row per node: node, quantile

WITH ordered AS (
    SELECT
        node,
        {value} AS value,
        CAST(row_number() OVER (PARTITION BY node ORDER BY {value} ASC) AS DOUBLE) AS place,
        CAST(COUNT(*) OVER (PARTITION BY node) AS DOUBLE) AS n
    FROM ({rows})
    WHERE h > 0
),
ranked AS (
    SELECT *, {alpha} * (n + 1) AS rank
    FROM ordered
),
neighbours AS (
    SELECT
        node, n, rank,
        MIN(value) AS first, MAX(value) AS last,
        MAX(CASE WHEN place = FLOOR(rank) THEN value END) AS low,
        MAX(CASE WHEN place = FLOOR(rank) + 1 THEN value END) AS high
    FROM ranked
    GROUP BY node, n, rank
)
SELECT
    node,
    CASE
        WHEN {alpha} <= 1 / (n + 1) THEN first
        WHEN {alpha} >= n / (n + 1) THEN last
        ELSE low + (rank - 1 - (FLOOR(rank) - 1)) * (high - low)
    END AS quantile
FROM neighbours
ORDER BY node ASC
