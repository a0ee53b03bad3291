-- G and H of the root.
--
-- in:  {gradients}
-- out: one row

SELECT SUM(g) AS g, SUM(h) AS h
FROM {gradients}
