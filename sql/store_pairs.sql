-- Store sums over pairs of rows that a kernel has made: what rank_pairs.sql makes by a join of the rows with themselves.
--
-- in:  {sums}        pair_g, pair_h, pair_size, row by row in the order of the bins
--      {columns}     these
-- out: {pairs}       the same

CREATE OR REPLACE TEMP TABLE {pairs} AS
SELECT {columns}
FROM {sums}
