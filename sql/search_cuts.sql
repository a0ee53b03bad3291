-- One step of a binary search, in all numeric features at once: a value that is not below the cut half-way ahead moves
-- there. After steps of 128, 64, ..., 1 its bin is the number of cuts that it is not below; where the search has started
-- from a cell, after the last few of them. (There is nothing past the last cut: NULL, and the value stays.)
--
-- in:  {rows}        value_0, cuts_0, bin_0, ...
--      {steps}       a feature each:  bin_0 + CASE WHEN value_0 >= cuts_0[bin_0 + 64] THEN 64 ELSE 0 END AS bin_0
-- out: the same rows, with bins so much nearer

SELECT * REPLACE ({steps})
FROM ({rows})
