-- Rank the rows by their values of one feature that is not a plain number: equal values have one rank, and missing ones
-- have the highest. Ranks last the fit. From sums of h by rank follow the cuts of each tree, and from these its codes, in
-- memory, where plain numbers are ranked as well.
--
-- in:  {bins}        the stored columns:  value_0, bin_1, ..., label, ...
--      {rank}        of a string feature its code:  DENSE_RANK() OVER (ORDER BY value_0 ASC NULLS LAST) - 1,  or  bin_1
-- out: position, rank: one row per row, in any order

SELECT rowid AS position, CAST({rank} AS UINTEGER) AS rank
FROM {bins}
