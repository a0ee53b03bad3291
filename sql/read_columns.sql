-- The user's rows as the search for bins wants them: every numeric feature beside its cuts, at the start of its search.
--
-- in:  {source}      the user's table, view or query, or what store_columns.sql has made of it
--      {columns}     a feature each:  source."x" AS value_0, cuts.cuts_0, 0 AS bin_0, or, for categories,
--                    category_1.code AS bin_1. Where the range of a column can be parted into cells of equal width with
--                    few cuts in each, the search starts behind the cuts of lower cells: cuts.below_0[...] AS bin_0
--      {cuts}        one row: cuts_0, below_0, ...
--      {joins}       for string features, joins to their numbered categories
--      {roles}       such as  CAST(source."y" AS DOUBLE) AS label, 1e0 AS weight
-- out: value_0, cuts_0, bin_0, ..., label, weight, ...

SELECT {columns}, {roles}
FROM {source} AS source CROSS JOIN {cuts} AS cuts
{joins}
