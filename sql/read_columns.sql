-- Read the user's rows for the search of bins: every numeric feature beside the list of its cuts, at the
-- bin to start from.
--
-- in:  {source}      the user's table, view or query, or the table of store_columns.sql
--      {columns}     one per feature:  source."x" AS value_0, 0 AS bin_0, cuts.cuts_0, or, for categories,
--                    category_1.code AS bin_1. Where cells of equal width hold few cuts each, the search starts at
--                    the number of cuts in lower cells:  cuts.below_0[...] AS bin_0. Then the roles, such as
--                    CAST(source."y" AS DOUBLE) AS label
--      {cuts}        one row: cuts_0, below_0, ...
--      {joins}       for string features, joins with their numbered categories
-- out: value_0, cuts_0, bin_0, ..., label, weight, ...

SELECT {columns}
FROM {source} AS source CROSS JOIN {cuts} AS cuts
{joins}
