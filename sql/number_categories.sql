-- The categories of one string feature, numbered in their order.
--
-- in:  {values}      the categories, as literals
--      {count}       how many
-- out: {categories}  category, code

CREATE TEMP TABLE {categories} AS
SELECT CAST(unnest([{values}]) AS VARCHAR) AS category, unnest(range({count})) AS code
