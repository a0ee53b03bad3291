-- List the values of each node's rows, for quantiles over rows that lie in several databases.
--
-- in:  {rows}        node, h, and the columns of {numbers}
--      {numbers}     such as  label - margin AS value, weight AS weight
-- out: one row per row with h > 0: node, value, weight

SELECT node, {numbers}
FROM ({rows})
WHERE h > 0
