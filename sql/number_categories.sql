-- The categories of one string feature, numbered in their order.
--
-- in:  {values}      the categories in one text, as 100,000 literals take seconds and half a gigabyte to plan
--      {separator}   what parts them, a character that none of them has
--      {count}       how many
-- out: {categories}  category, code

CREATE TEMP TABLE {categories} AS
SELECT unnest(string_split({values}, {separator})) AS category, unnest(range({count})) AS code
