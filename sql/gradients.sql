-- First and second derivatives of the loss at each row's margin, times its weight, rounded to a grid on which sums are
-- exact in any order: (x + C) - C rounds x to a multiple of a power of two.
--
-- in:  {bins}        label, weight
--      {margins}     margin
--      {g}, {h}      such as  ((margin - label) * weight + C) - C
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {gradients}   g, h, row by row in the order of {bins}

CREATE TEMP TABLE {gradients} AS
SELECT {g} AS g, {h} AS h
FROM {bins} POSITIONAL JOIN {margins}
{in_order}
