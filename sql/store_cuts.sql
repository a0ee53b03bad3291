-- Store the cuts of all numeric features as one row of lists, where the search looks them up. They come as texts,
-- because thousands of literals take a second to parse and plan.
--
-- in:  {lists}       one per feature:  CAST('[1.5, 2.5, 7.0]' AS DOUBLE[]) AS cuts_0, and where the search starts from
--                    cells, the number of cuts below each cell:  CAST('[0, 1, 1, 2]' AS INTEGER[]) AS below_0
-- out: {cuts}        cuts_0, cuts_1, ..., below_0, ...

CREATE TEMP TABLE {cuts} AS
SELECT {lists}
