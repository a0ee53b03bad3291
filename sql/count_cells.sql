-- Count a numeric feature's values by cells of equal width. The counts say in which cells a cut may be, by the ranks of
-- propose_cuts.sql: those in which the rows are of several parts. Of another cell only the lowest value can be a cut.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {n}           nothing, or where a row stands for several rows of the data, how many:  , source.drawn AS n
--      {count}       COUNT(*), or the sum of n
--      {cell}        the number of a value's cell, which fits a perfect hash table
-- out: one row per cell that has rows: the cell, the number of rows, the lowest and the highest value

SELECT {cell} AS cell, {count} AS n, MIN(value) AS lowest, MAX(value) AS highest
FROM (SELECT {column} AS value{n} FROM {source} AS source WHERE {is_present} AND {sample})
GROUP BY 1
