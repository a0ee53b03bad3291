-- Compute the same leaf values for weighted rows: the lowest residual of a node at which the running weight reaches
-- alpha of the total.
--
-- in:  {rows}        node, h, and the columns of {value} and {weight}
--      {value}       such as  label - margin
--      {weight}      on a grid, so that its sums are exact
--      {alpha}
-- out: one row per node: node, quantile

WITH running AS (
    SELECT
        node,
        {value} AS value,
        SUM({weight}) OVER (PARTITION BY node ORDER BY {value} ASC) AS reached,
        SUM({weight}) OVER (PARTITION BY node) AS total
    FROM ({rows})
    WHERE h > 0
)
SELECT node, MIN(value) AS quantile
FROM running
WHERE reached >= total * {alpha}
GROUP BY node
ORDER BY node ASC
