-- A tree starts with every row in its root.
--
-- in:  {bins}
-- out: {nodes}       node, row by row in the order of {bins}

CREATE OR REPLACE TEMP TABLE {nodes} AS
SELECT CAST(0 AS UTINYINT) AS node
FROM {bins}
