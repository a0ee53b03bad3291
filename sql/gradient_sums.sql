-- Sum g and h over all rows: G and H of the root, from which its leaf value and its gain follow.
--
-- in:  {gradients}
--      {g}, {h}      its columns
-- out: one row

SELECT SUM({g}) AS g, SUM({h}) AS h
FROM {gradients}
