-- The tree is done: each row's margin moves by the value of the leaf that it is in.
--
-- in:  {bins}
--      {margins}     one column, {margin}
--      {nodes}       node
--      {leaves}      a leaf each:  WHEN 7 THEN 0.25
--      {in_order}    nothing, or ORDER BY the rows of {bins}, where DuckDB has been told not to keep their order
-- out: {next_margins}  {margin}, row by row in the order of {bins}

CREATE TEMP TABLE {next_margins} AS
SELECT {margin} + CASE node {leaves} END AS {margin}
FROM {bins} POSITIONAL JOIN {margins} POSITIONAL JOIN {nodes}
{in_order}
