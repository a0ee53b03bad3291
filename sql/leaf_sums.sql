-- Aggregate over the rows of each linear leaf: first the ranges of its features, then the sums of products of g, h and
-- these features on grids (frameboost/training/linear_leaves.py). Sums of numbers on grids are exact in any order.
--
-- in:  {rows}        the tables of bins, nodes and {g}, {h}, joined by position; bins have the features' numbers too
--      {leaf}        the row's leaf, or -1 in leaves that are not asked about
--      {numbers}     the columns of the features' numbers, as roles:  , x_0, x_3
--      {terms}       the numbers of the row's leaf:  , ([x_0, x_3])[([NULL, 1, 2])[leaf + 1]] AS u_0, ...
--      {g_on_grid}, {h_on_grid}   g and h, or the same rounded to the grids of the leaf
--      {present}     that none of them is missing:  AND u_0 IS NOT NULL
--      {aggregates}  such as  SUM(h * u_0)
-- out: one row for each leaf with rows: the leaf, the aggregates

SELECT leaf, {aggregates}
FROM (
    SELECT leaf, {g_on_grid} AS g, {h_on_grid} AS h{terms}
    FROM (
        SELECT {leaf} AS leaf, {g} AS g, {h} AS h{numbers}
        FROM {rows}
    )
    WHERE leaf >= 0 AND h > 0
)
WHERE TRUE {present}
GROUP BY leaf
