-- Store numbers of the rows that were computed apart: the gradients of a function of the user's, or the sums over pairs of
-- rows that a kernel has made (what rank_pairs.sql makes by a join of the rows with themselves).
--
-- in:  {arrays}      the numbers, row by row in the order of the bins
--      {columns}     their names, such as  pair_g, pair_h, pair_size
-- out: {added}       the same

CREATE OR REPLACE TEMP TABLE {added} AS
SELECT {columns}
FROM {arrays}
