-- Sum g and h by node and key of each dimension: few columns of the facts are read, and attributes none.
--
-- in:  {histograms}  histograms.sql of the keys, as if each dimension were a feature and its keys were codes
-- out: {sums}        feature (the dimension), key (place of the node * number of keys + key), g, h

CREATE OR REPLACE TEMP TABLE {sums} AS
{histograms}
