-- First and second derivatives of the loss at each row's margins, times its weight, rounded to a grid on which sums are
-- exact in any order: (x + C) - C rounds x to a multiple of a power of two.
--
-- in:  {rows}        label, weight, margin, and whatever terms the loss has defined
--      {numbers}     such as  ((margin - label) * weight + C) - C AS g_0, (weight + C) - C AS h_0. Of millions of rows
--                    the grid has so few steps that their number is stored instead, as INTEGER, half as wide as DOUBLE
--      {in_order}    nothing, or ORDER BY position, where the rows may have lost their order
-- out: {gradients}   g_0, h_0, ..., row by row in the order of {bins}

CREATE TEMP TABLE {gradients} AS
SELECT {numbers}
FROM ({rows})
{in_order}
