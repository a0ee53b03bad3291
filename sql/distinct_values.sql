-- Read the distinct values of one feature, to which the ranks of rank_values.sql belong.
--
-- in:  {bins}        the stored columns:  value_0, ..., label, ...
--      {value}       the feature's:  value_0
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row per value, in ascending order:  value

SELECT {physical} AS value
FROM (SELECT DISTINCT {value} FROM {bins} WHERE {value} IS NOT NULL) AS source
ORDER BY {value} ASC
