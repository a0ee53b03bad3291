-- Before the first tree every row has the same margin.
--
-- in:  {bins}
--      {margin}      the base score, on the margin's scale
-- out: {margins}     margin, row by row in the order of {bins}

CREATE TEMP TABLE {margins} AS
SELECT {margin} AS margin
FROM {bins}
