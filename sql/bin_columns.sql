-- Every feature as the number of the bin that its value falls in; stored once, together with label and weight, so that
-- the rows of all later tables have one order.
--
-- in:  {source}      the user's table, view or query
--      {codes}       a feature each:  CASE WHEN source."x" IS NULL THEN 3 WHEN source."x" < 1.5 THEN ... END AS bin_0
--      {joins}       for string features, a join to the table of categories, which numbers them
--      {label}, {weight}
-- out: {bins}        bin_0, bin_1, ..., label, weight

CREATE TEMP TABLE {bins} AS
SELECT {codes}, {label} AS label, {weight} AS weight
FROM {source} AS source
{joins}
