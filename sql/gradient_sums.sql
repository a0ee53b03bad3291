-- G and H of the root.
--
-- in:  {gradients}
--      {g}, {h}      its columns
-- out: one row

SELECT SUM({g}) AS g, SUM({h}) AS h
FROM {gradients}
