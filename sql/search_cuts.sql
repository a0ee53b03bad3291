-- Take one step of a binary search in all numeric features at once: a bin advances by the step if the value is not
-- below the cut there. After steps of 128, 64, ..., 1 it is the number of cuts that are not above the value; from a
-- cell it takes only the last few steps. (Past its last cut a list has NULL, and the bin stays.)
--
-- in:  {rows}        value_0, cuts_0, bin_0, ...
--      {steps}       one per feature:  bin_0 + CASE WHEN value_0 >= cuts_0[bin_0 + 64] THEN 64 ELSE 0 END AS bin_0
-- out: the same rows after the step

SELECT * REPLACE ({steps})
FROM ({rows})
