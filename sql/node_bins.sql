-- Propose cuts for one feature in every open node (local proposals), and sum g and h between them in one statement:
-- each node has cuts of its own, so there are no codes to store. Cuts are quantiles weighted by h, as in
-- propose_weighted_cuts.sql, over the rows of the node; each part is a bin that starts at its lowest value. Counted are
-- rows that have a gradient.
--
-- in:  {bins}        value_0, ...
--      {gradients}   {g}, {h}
--      {nodes}       node
--      {open_nodes}  the wanted nodes:  3, 4, 7
--      {value}       the feature's column, NULL where it is missing
--      {max_bin}     most bins
--      {physical}    the lowest value, start, as a plain number: days, microseconds, ...
--      {highest}     the same of the highest value, stop
-- out: one row per node and bin, ascending; start and stop are NULL for the bin of missing values

WITH by_value AS (
    SELECT
        node, {value} AS value, SUM({g}) AS g, SUM({h}) AS h,
        COUNT(*) FILTER (WHERE {g} <> 0 OR {h} <> 0) AS n
    FROM {bins} POSITIONAL JOIN {gradients} POSITIONAL JOIN {nodes}
    WHERE node IN ({open_nodes})
    GROUP BY node, {value}
),
ranked AS (
    SELECT
        node, value, g, h, n,
        row_number() OVER (PARTITION BY node, value IS NULL ORDER BY value ASC) - 1 AS place,
        COUNT(*) OVER (PARTITION BY node, value IS NULL) AS n_values,
        SUM(h) OVER (PARTITION BY node, value IS NULL ORDER BY value ASC) - h AS before,
        SUM(h) OVER (PARTITION BY node, value IS NULL) AS total
    FROM by_value
),
parted AS (
    SELECT
        node, value, g, h, n,
        CASE
            WHEN n_values <= {max_bin} THEN place
            WHEN total > 0 THEN LEAST(FLOOR(before * CAST({max_bin} AS DOUBLE) / total), {max_bin} - 1)
            ELSE 0
        END AS part
    FROM ranked
),
parts AS (
    SELECT node, MIN(value) AS start, MAX(value) AS stop, SUM(g) AS g, SUM(h) AS h, SUM(n) AS n
    FROM parted
    GROUP BY node, value IS NULL, part
)
SELECT
    node,
    CASE WHEN start IS NOT NULL THEN {physical} END AS start,
    CASE WHEN start IS NOT NULL THEN {highest} END AS stop,
    g,
    h,
    n
FROM parts
ORDER BY node ASC, parts.start ASC
