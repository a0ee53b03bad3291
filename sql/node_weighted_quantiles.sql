-- The same where rows have weights: the lowest residual of a node at which the running weight is alpha of its whole.
--
-- in:  {rows}        node, h, and what value and weight are made of
--      {value}       such as  label - margin
--      {weight}      on a grid, so that its sums are exact
--      {alpha}
-- out: a row a node: node, quantile

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
