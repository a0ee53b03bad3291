-- Sum the gradients of LambdaMART over pairs: within each query, the top rows by margin are paired with all rows behind
-- them that have another label. A pair pulls the more relevant row up and pushes the other one down.
--
-- in:  {rows}        position, qid, label, margin, rank (by margin, from 0), and the other names in {columns}
--      {truncation}  the number of top rows of a query
--      {size}        the size of a pair's gradient, over the columns of i and j, rounded to a grid
--      {curvature}   its second derivative, on the same grid
-- out: {pairs}       pair_g, pair_h, pair_size (the sum of sizes), row by row in the order of {bins}

CREATE OR REPLACE TEMP TABLE {pairs} AS
WITH ranked AS MATERIALIZED (
    SELECT position, qid, {columns}
    FROM ({rows})
),
paired AS (
    SELECT
        i.position AS position_i, j.position AS position_j,
        CASE WHEN i.label > j.label THEN 1e0 ELSE -1e0 END AS up,
        {size} AS size,
        {curvature} AS curvature
    FROM ranked AS i JOIN ranked AS j ON i.qid = j.qid AND i.rank < j.rank AND i.label <> j.label
    WHERE i.rank < {truncation}
),
sides AS (
    SELECT position_i AS position, -up * size AS g, curvature AS h, size FROM paired
    UNION ALL
    SELECT position_j AS position, up * size AS g, curvature AS h, size FROM paired
),
sums AS (
    SELECT position, SUM(g) AS g, SUM(h) AS h, SUM(size) AS size
    FROM sides
    GROUP BY position
)
SELECT COALESCE(g, 0e0) + 0e0 AS pair_g, COALESCE(h, 0e0) AS pair_h, COALESCE(size, 0e0) AS pair_size
FROM {bins} LEFT JOIN sums ON sums.position = {bins}.rowid
ORDER BY {bins}.rowid ASC
