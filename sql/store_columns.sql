-- Store the columns as values, with the label, the weight and the other roles, for tree_method="approx": it proposes
-- cuts from the values for each tree or node.
--
-- in:  {source}      the user's table, view or query
--      {columns}     one per feature:  source."x" AS value_0, NULL where it is NaN; or, for categories, the number of
--                    the category as bin_1
--      {joins}       for string features, joins with their numbered categories
--      {roles}       such as  CAST(source."y" AS DOUBLE) AS label
--      {in_order}    nothing, or ORDER BY the position in the source, where rows are sampled or ranked by it
-- out: {bins}        value_0, bin_1, ..., label, weight, ...

CREATE TEMP TABLE {bins} AS
SELECT {columns}, {roles}
FROM {source} AS source
{joins}
{in_order}
