-- Sum over the rows of each distinct score, for areas under curves of rows that lie in several databases.
--
-- in:  {rows}
--      {score}, {positive}, {negative}
-- out: one row per score: score, positive, negative

SELECT
    CAST({score} AS DOUBLE) AS score,
    CAST(SUM({positive}) AS DOUBLE) AS positive,
    CAST(SUM({negative}) AS DOUBLE) AS negative
FROM ({rows})
GROUP BY 1
