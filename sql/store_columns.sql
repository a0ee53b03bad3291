-- Where cuts are proposed anew for each tree or node (tree_method="approx"), the values themselves are stored once,
-- together with the label, the weight and whatever else the fit needs of a row.
--
-- in:  {source}      the user's table, view or query
--      {columns}     a feature each:  source."x" AS value_0, NULL where it is NaN; or, for categories, the number of the
--                    category as bin_1
--      {joins}       for string features, joins to their numbered categories
--      {roles}       such as  CAST(source."y" AS DOUBLE) AS label, 1e0 AS weight
--      {in_order}    nothing, or ORDER BY the position in the source, where rows are drawn, or rank, by it
-- out: {bins}        value_0, bin_1, ..., label, weight, ...

CREATE TEMP TABLE {bins} AS
SELECT {columns}, {roles}
FROM {source} AS source
{joins}
{in_order}
