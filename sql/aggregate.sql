-- Aggregate over all rows in one pass: label checks, the largest gradient, metrics.
--
-- in:  {rows}        rows with label, weight and, once there are margins, margin
--      {aggregates}  such as  MAX(ABS(margin - label)) AS largest
-- out: one row

SELECT {aggregates}
FROM ({rows})
