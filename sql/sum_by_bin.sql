-- Sum g and h by node and bin for one feature, from the rows that histograms.sql has read. (Keys come in one struct,
-- because DuckDB loses the range of keys in columns of their own, and then hashes them.)
--
-- in:  {feature}     its number
--      {numbers}     such as  SUM(g) AS g, SUM(h) AS h
-- out: one row per key that has rows

SELECT {feature} AS feature, keys.key_{feature} AS key, {numbers}
FROM asked
GROUP BY 2
