-- Aggregate over the distinct scores, for areas under curves: the rows of each score, and those of higher scores. Rows
-- are grouped by score first, because rows of equal score count as one step of the curve.
--
-- in:  {rows}
--      {score}, {positive}, {negative}
--      {aggregates}  such as  SUM(negative * (positive_above + positive / 2)) AS area
-- out: one row

WITH by_score AS (
    SELECT {score} AS score, SUM({positive}) AS positive, SUM({negative}) AS negative
    FROM ({rows})
    GROUP BY 1
),
running AS (
    SELECT
        score, positive, negative,
        SUM(positive) OVER (ORDER BY score DESC) - positive AS positive_above,
        SUM(negative) OVER (ORDER BY score DESC) - negative AS negative_above,
        SUM(positive) OVER () AS positive_total,
        SUM(negative) OVER () AS negative_total
    FROM by_score
)
SELECT {aggregates}
FROM running
