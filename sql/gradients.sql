-- Compute the first and second derivatives of the loss at each row's margin, times its weight. (x + C) - C rounds x to
-- a multiple of a power of two: on that grid all sums are exact, in whatever order the database adds.
--
-- in:  {rows}        label, weight, margin, and the terms that the loss defines
--      {numbers}     such as  ((margin - label) * weight + C) - C AS g_0, (weight + C) - C AS h_0
--      {in_order}    nothing, or ORDER BY position, where the rows may have lost their order
-- out: {gradients}   g_0, h_0, ..., row by row in the order of {bins}

CREATE TEMP TABLE {gradients} AS
SELECT {numbers}
FROM ({rows})
{in_order}
