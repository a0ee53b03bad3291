-- Give every row its first margin: the base score, unless the user brings one for each row.
--
-- in:  {bins}        label, weight, ...
--      {columns}     the base score, on the margin's scale, and its name; if it is the only margin, label, weight, ...
--                    too, so that gradients read one table
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where preserve_insertion_order is off
-- out: {margins}     the same, row by row in the order of {bins}

CREATE TEMP TABLE {margins} AS
SELECT {columns}
FROM {bins}
{in_order}
