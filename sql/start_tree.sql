-- Put every row into the root, where a table of nodes is needed before the first split.
--
-- in:  {bins}
-- out: {nodes}       node, row by row in the order of {bins}

CREATE OR REPLACE TEMP TABLE {nodes} AS
SELECT CAST(0 AS UTINYINT) AS node
FROM {bins}
