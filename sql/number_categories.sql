-- Number the categories of one feature in their order. They come as one text that is split or cast to a list, because
-- 100,000 literals take seconds and half a gigabyte to plan.
--
-- in:  {values}      the list of the categories
--      {type}        their type
--      {count}       the number of categories
-- out: {categories}  category, code

CREATE TEMP TABLE {categories} AS
SELECT CAST(unnest({values}) AS {type}) AS category, unnest(range({count})) AS code
