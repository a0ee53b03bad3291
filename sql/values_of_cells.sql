-- Read a numeric feature's values in those cells of count_cells.sql where a cut may be.
--
-- in:  {source}      the user's table, view or query
--      {column}      the feature
--      {is_present}  true where it is neither NULL nor NaN
--      {sample}      true for the rows to look at; all of them unless there are millions
--      {n}           nothing, or where a row stands for several rows of the data, how many:  , source.drawn AS n
--      {values}      value, and n where a row stands for several
--      {cell}        the number of a value's cell
--      {cells}       the cells, a bit each:  0010000100
-- out: their values, in any order

SELECT {values}
FROM (SELECT {column} AS value{n} FROM {source} AS source WHERE {is_present} AND {sample})
WHERE get_bit(CAST('{cells}' AS BIT), {cell}) = 1
