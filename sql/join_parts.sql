-- Put the codes of many features, which come in a table for each group of them, into one table, with the roles. All parts
-- are in the order of the source.
--
-- in:  {parts}       the tables of bin_columns.sql, joined by position: bin_0, bin_1, ..., label, weight, ...
--      {in_order}    nothing, or ORDER BY the rows of the first part, or the key to sort by
-- out: {bins}        bin_0, bin_1, ..., label, weight, ..., as bin_columns.sql has it

CREATE TEMP TABLE {bins} AS
SELECT *
FROM {parts}
{in_order}
