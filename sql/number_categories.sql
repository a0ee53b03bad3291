-- Number the categories of one feature in their order. They come as one text, because 100,000 literals take
-- seconds and half a gigabyte to plan.
--
-- in:  {values}      the categories, joined by the separator
--      {separator}   a character that none of them has
--      {type}        their type
--      {count}       the number of categories
-- out: {categories}  category, code

CREATE TEMP TABLE {categories} AS
SELECT CAST(unnest(string_split({values}, {separator})) AS {type}) AS category, unnest(range({count})) AS code
