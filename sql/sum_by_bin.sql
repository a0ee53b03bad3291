-- The sums of one feature, out of the rows that histograms.sql has read. (Keys come in one struct because DuckDB loses
-- sight of how large they get where they are columns, and then has to hash them; a small range needs no hashing.)
--
-- in:  {feature}     its number
-- out: one row a node and bin that has rows

SELECT {feature} AS feature, keys.key_{feature} AS key, SUM(g) AS g, SUM(h) AS h
FROM asked
GROUP BY 2
