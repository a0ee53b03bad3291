-- Store every feature as bin numbers, with the label, the weight and the other roles. All later tables are made from
-- this one in its order, so that rows meet by position.
--
-- in:  {rows}        value_0, bin_0, ..., label, weight, ..., at the end of the search
--      {columns}     one per feature:  CASE WHEN value_0 IS NULL THEN 3 ELSE bin_0 END AS bin_0; then label, weight, ...
--      {in_order}    nothing, or ORDER BY the position in the source, where rows are sampled or ranked by it
-- out: {bins}        bin_0, bin_1, ..., label, weight, ...

CREATE TEMP TABLE {bins} AS
SELECT {columns}
FROM ({rows})
{in_order}
