-- Sum h by value for one feature, of the rows in those fine bins among whose values the next tree may have a cut:
-- quantiles weighted by h (XGBoost paper, section 3.3). The rank of a value is the share of h below it. Ranks are divided
-- evenly into as many parts as there may be bins, and each part but the first starts at a cut: the lowest value whose
-- rank is in it. The sums of h by fine bin (histograms.sql) say between which values that may be. All sums of h are
-- exact, so every engine finds the same cuts.
--
-- in:  {rows}        the tables of values, fine bins and {h}, joined by position:  value_0, ..., bin_0, ..., h_0
--      {feature}     the feature's number
--      {bins}        the fine bins asked for, a bit each:  0010000100
--      {h}
--      {physical}    the value as a plain number: days, microseconds, ...
-- out: one row per value in these bins: feature, its place in the order of the values, the fine bin, value, h

SELECT
    {feature} AS feature,
    row_number() OVER (ORDER BY value ASC) AS place,
    bin,
    {physical} AS value,
    h
FROM (
    SELECT bin_{feature} AS bin, value_{feature} AS value, SUM({h}) AS h
    FROM {rows}
    WHERE get_bit(CAST('{bins}' AS BIT), bin_{feature}) = 1
    GROUP BY 1, 2
)
