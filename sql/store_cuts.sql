-- The cuts of all numeric features as one row of lists, where a search can look them up.
--
-- in:  {lists}       a feature each:  [1.5e0, 2.5e0, 7e0] AS cuts_0; of some also how many cuts lie below each cell of their
--                    range:  [0, 1, 1, 2] AS below_0
-- out: {cuts}        cuts_0, cuts_1, ..., below_0, ...

CREATE TEMP TABLE {cuts} AS
SELECT {lists}
