-- Count how many facts refer to each row of a dimension: in cuts and in counts of missing values, a row stands for as
-- many rows as the join would have. Rows that no fact refers to are dropped. Facts whose key finds no row refer to one
-- row more, -1, in which all is missing.
--
-- in:  {facts}       the copy of the facts
--      {row}         its column of the dimension's rows
--      {dimension}   the copy of the dimension: row_id, value_3, ...
--      {sample}      true for the facts that cuts are found from; all of them unless there are millions
--      {columns}     such as  dimension.value_3
-- out: {referenced}  row_id, facts, drawn (of these, in the sample), value_3, ...

CREATE TEMP TABLE {referenced} AS
WITH counted AS (
    SELECT {row} AS row_id, COUNT(*) AS facts, COUNT(*) FILTER (WHERE {sample}) AS drawn
    FROM {facts} AS source
    GROUP BY 1
)
SELECT counted.row_id, counted.facts, counted.drawn, {columns}
FROM counted LEFT JOIN {dimension} AS dimension ON dimension.row_id = counted.row_id
