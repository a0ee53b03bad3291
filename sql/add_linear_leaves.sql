-- Add the value of each row's leaf to its margin, where leaves may be linear.
--
-- in:  {rows}        the tables of bins, nodes and margins, joined by position; bins have the features' numbers too
--      {table}       the table of margins
--      {margin}      its column
--      {leaf}        the row's leaf
--      {numbers}     the columns of the features' numbers, as roles:  , x_0, x_3
--      {terms}       the numbers of the row's leaf, on its grids:  , (([x_0, x_3])[([NULL, 1, 2])[leaf + 1]] + ...) AS v_0
--      {value}       the value of the leaf:  COALESCE(([NULL, 0.5, 1])[leaf + 1] + ... * v_0, ([0.25, 0.75])[leaf + 1])
--      {position}    nothing, or the rows of the bins, as position, where preserve_insertion_order is off
--      {in_order}    nothing, or ORDER BY position
--      {besides}     the columns that are not those of the table:  leaf, x_0, x_3, v_0
-- out: {margins}     {margin}, row by row in the order of the bins, and the table's other columns

CREATE OR REPLACE TEMP TABLE {margins} AS
SELECT * EXCLUDE ({besides}) REPLACE ({margin} + {value} AS {margin})
FROM (
    SELECT *{terms}
    FROM (
        SELECT {table}.*, {leaf} AS leaf{numbers}{position}
        FROM {rows}
    )
)
{in_order}
