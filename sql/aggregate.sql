-- One pass over all rows for a handful of numbers: is the label usable, how large can a gradient be, how good is the fit.
--
-- in:  {rows}        rows with label, weight and, once there are margins, margin
--      {aggregates}  such as  MAX(ABS(margin - label)) AS largest
-- out: one row

SELECT {aggregates}
FROM ({rows})
