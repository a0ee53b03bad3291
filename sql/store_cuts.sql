-- The cuts of all numeric features as one row of lists, where a search can look them up.
--
-- in:  {lists}       a feature each:  CAST('[1.5, 2.5, 7.0]' AS DOUBLE[]) AS cuts_0; of some also how many cuts lie below each
--                    cell of their range:  CAST('[0, 1, 1, 2]' AS INTEGER[]) AS below_0. As literals, thousands of
--                    numbers take a second to parse and plan
-- out: {cuts}        cuts_0, cuts_1, ..., below_0, ...

CREATE TEMP TABLE {cuts} AS
SELECT {lists}
