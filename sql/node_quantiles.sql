-- What the leaves of an absolute or a quantile loss are worth: a quantile of the residuals in each node, where -G/(H+λ)
-- would know only their signs. In proportion between the two neighbours of rank alpha (n + 1).
--
-- in:  {rows}        node, h, and what the value is made of
--      {value}       such as  label - margin
--      {alpha}
-- out: a row a node: node, quantile

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
