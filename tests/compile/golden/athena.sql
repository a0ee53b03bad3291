-- margin, one expression
((((0.5e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0)) + (
  IF("x" < infinity(), 0.5e0, IF("x" IS NOT NULL AND NOT is_nan("x"), 1.0e0, -1.0e0)) +
  IF("x" < 1e-300, 0.125e0, IF("x" >= -infinity() AND NOT is_nan("x"), 0.75e0, 0.25e0)))) + ((
  IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0) +
  IF("n" < -7, 0.5e0, IF("n" IS NOT NULL, -0.5e0, 0.25e0))) + (
  IF("big" < DECIMAL '18446744073709551615', 0.5e0, -0.5e0) +
  IF("price" >= DECIMAL '-1.005', -0.5e0, 0.5e0)))) + (((
  IF("ok", -0.5e0, 0.5e0) +
  IF(NOT "ok", 0.5e0, -0.5e0)) + (
  IF("ok" IS NOT NULL, -0.5e0, 0.5e0) +
  IF("day" < DATE '2024-02-29', 0.5e0, -0.5e0))) + ((
  IF("at" >= TIMESTAMP '2024-02-29 00:00:01.5', -0.5e0, 0.5e0) +
  IF("seen" < TIMESTAMP '2024-02-29 00:00:00.000001 UTC', 0.5e0, -0.5e0)) + (
  IF("it's ""x\y] `z" IN ('', 'A', 'O''Hare "ORD"'), IF("x" < 3.0e0, 1.5e0, 2.0e0), 0.5e0) +
  IF("it's ""x\y] `z" = 'A', 0.5e0, -0.5e0))))
);

-- query, of all columns
SELECT *, (1.0e0 / (1.0e0 + EXP((-(-1.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0)))))) AS "prediction"
FROM "shop"."orders"
WHERE 1 = 1;

-- query, of classes
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0) +
  IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0)) AS "v_1",
  IF("x" < 1e-300, 0.125e0, IF("x" >= -infinity() AND NOT is_nan("x"), 0.75e0, 0.25e0)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", (0.5e0 +
  "v_1") AS "v_3", 0.0e0 AS "v_4", (-0.25e0 +
  "v_2") AS "v_5"
FROM stage_1
)
SELECT "id",
  CAST(CASE WHEN ("v_3" >= GREATEST("v_4", "v_5")) THEN 0.0e0 WHEN ("v_4" >= "v_5") THEN 1.0e0 ELSE 2.0e0 END AS BIGINT) AS "prediction"
FROM stage_2;

-- query in stages
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0) +
  IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0)) AS "v_1",
  IF("x" < 1e-300, 0.125e0, IF("x" >= -infinity() AND NOT is_nan("x"), 0.75e0, 0.25e0)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", (0.5e0 +
  "v_1") AS "v_3", 0.0e0 AS "v_4", (-0.25e0 +
  "v_2") AS "v_5"
FROM stage_1
),
stage_3 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5",
  GREATEST("v_3", "v_4", "v_5") AS "v_6"
FROM stage_2
),
stage_4 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5", "v_6",
  EXP(("v_3" - "v_6")) AS "v_7", EXP(("v_4" - "v_6")) AS "v_8",
  EXP(("v_5" - "v_6")) AS "v_9"
FROM stage_3
),
stage_5 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5", "v_6", "v_7", "v_8",
  "v_9", (("v_7" + "v_8") + "v_9") AS "v_10"
FROM stage_4
)
SELECT "id", ("v_7" / "v_10") AS "prediction_0",
  ("v_8" / "v_10") AS "prediction_1", ("v_9" / "v_10") AS "prediction_2"
FROM stage_5;

-- leaves
SELECT "id", CAST((0.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 2.0e0, 1.0e0)) AS BIGINT) AS "leaf_0",
  CAST((0.0e0 +
  IF("x" < 1e-300, 1.0e0, IF("x" >= -infinity() AND NOT is_nan("x"), 4.0e0, 3.0e0))) AS BIGINT) AS "leaf_1",
  CAST((0.0e0 +
  IF("f" < 0.10000000149011612e0, 1.0e0, 2.0e0)) AS BIGINT) AS "leaf_2"
FROM "orders";

-- query that nobody reads
WITH stage_1 AS (
SELECT "id", "x", "f", "n", "big", "price", "ok", "day", "at", "seen",
  "it's ""x\y] `z", "x" AS "v_1", "f" AS "v_2", "n" AS "v_3", "big" AS "v_4",
  "price" AS "v_5", "ok" AS "v_6", "day" AS "v_7", "at" AS "v_8",
  "seen" AS "v_9",
  CASE "it's ""x\y] `z" WHEN '' THEN 0 WHEN 'A' THEN 1 WHEN 'O''Hare "ORD"' THEN 2 WHEN 'back\slash' THEN 3 ELSE CASE WHEN "it's ""x\y] `z" IS NOT NULL THEN -1 END END AS "v_10"
FROM "orders"
)
SELECT "id", (((((4 +
  IF("v_1" >= 0.1e0 AND NOT is_nan("v_1"), 3, -2)) + (
  IF("v_1" < infinity(), 4, IF("v_1" IS NOT NULL AND NOT is_nan("v_1"), 8, -8)) +
  IF("v_1" < 1e-300, 1, IF("v_1" >= -infinity() AND NOT is_nan("v_1"), 6, 2)))) + ((
  IF("v_2" < 0.10000000149011612e0, 4, -4) +
  IF("v_3" < -7, 4, IF("v_3" IS NOT NULL, -4, 2))) + (
  IF("v_4" < DECIMAL '18446744073709551615', 4, -4) +
  IF("v_5" >= DECIMAL '-1.005', -4, 4)))) + (((
  IF("v_6", -4, 4) +
  IF(NOT "v_6", 4, -4)) + (
  IF("v_6" IS NOT NULL, -4, 4) +
  IF("v_7" < DATE '2024-02-29', 4, -4))) + ((
  IF("v_8" >= TIMESTAMP '2024-02-29 00:00:01.5', -4, 4) +
  IF("v_9" < TIMESTAMP '2024-02-29 00:00:00.000001 UTC', 4, -4)) + (
  IF("v_10" IN (0, 1, 2), IF("v_1" < 3.0e0, 12, 16), 4) + (
  IF("v_10" = 1, 4, -4) +
  ARRAY[2,-4,6,2,2,-4,6,2][IF("v_1" < 3.0e0, 1, 5) + IF("v_3" >= 5, 2, 0) + IF("v_10" IN (1, 3), 0, 1)]))))
) * 0.125e0) AS "prediction"
FROM stage_1;

-- query over the table of trees
WITH stage_1 AS (
SELECT "id", "x", "f", "n", "big", "price", "ok", "day", "at", "seen",
  "it's ""x\y] `z", ROW_NUMBER() OVER () AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND NOT is_nan(row_of_data."x") THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND NOT is_nan(row_of_data."f") THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_1 AS row_of_data
CROSS JOIN "shop"."trees" AS node_of_tree
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND named_by_node."category" = CASE node_of_tree."feature" WHEN 9 THEN row_of_data."it's ""x\y] `z" END
WHERE node_of_tree."node" = 0
),
stage_3 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND NOT is_nan(row_of_data."x") THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND NOT is_nan(row_of_data."f") THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_2 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND named_by_node."category" = CASE node_of_tree."feature" WHEN 9 THEN row_of_data."it's ""x\y] `z" END
),
stage_4 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND NOT is_nan(row_of_data."x") THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND NOT is_nan(row_of_data."f") THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_3 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND named_by_node."category" = CASE node_of_tree."feature" WHEN 9 THEN row_of_data."it's ""x\y] `z" END
),
stage_5 AS (
SELECT row_of_data."id" AS "id", SUM(node_of_tree."value") AS "v_1"
FROM stage_4 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
GROUP BY row_of_data."v_2", row_of_data."id"
)
SELECT "id", (0.5e0 + "v_1") AS "prediction"
FROM stage_5;

-- view
CREATE VIEW "scored" AS
SELECT "id", (1.0e0 / (1.0e0 + EXP((-(-1.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0)))))) AS "prediction"
FROM "orders";

-- table
CREATE TABLE "scored" AS
SELECT "id", CAST(CASE WHEN ((1.0e0 / (1.0e0 + EXP((-(-1.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0)))))) > 0.5e0) THEN 1.0e0 ELSE 0.0e0 END AS BIGINT) AS "prediction"
FROM "orders"
WHERE id > 7;

-- table, in stages
CREATE TABLE "scored" AS
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0) +
  IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0)) AS "v_1",
  IF("x" < 1e-300, 0.125e0, IF("x" >= -infinity() AND NOT is_nan("x"), 0.75e0, 0.25e0)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", (0.5e0 +
  "v_1") AS "v_3", 0.0e0 AS "v_4", (-0.25e0 +
  "v_2") AS "v_5"
FROM stage_1
),
stage_3 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5",
  GREATEST("v_3", "v_4", "v_5") AS "v_6"
FROM stage_2
),
stage_4 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5", "v_6",
  EXP(("v_3" - "v_6")) AS "v_7", EXP(("v_4" - "v_6")) AS "v_8",
  EXP(("v_5" - "v_6")) AS "v_9"
FROM stage_3
),
stage_5 AS (
SELECT "id", "x", "f", "v_1", "v_2", "v_3", "v_4", "v_5", "v_6", "v_7", "v_8",
  "v_9", (("v_7" + "v_8") + "v_9") AS "v_10"
FROM stage_4
)
SELECT "id", ("v_7" / "v_10") AS "prediction_0",
  ("v_8" / "v_10") AS "prediction_1", ("v_9" / "v_10") AS "prediction_2"
FROM stage_5;

-- update
UPDATE "orders"
SET "score" = (1.0e0 / (1.0e0 + EXP((-(-1.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.375e0, -0.25e0))))));

-- contributions
SELECT "id", (0.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.3125e0, -0.3125e0)) AS "x",
  0.0e0 AS "f", 0.0e0 AS "n", -0.9375e0 AS "bias"
FROM "orders";

-- reasons
WITH stage_1 AS (
SELECT "id", (0.0e0 +
  IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.3125e0, -0.3125e0)) AS "v_6",
  (0.0e0 +
  IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0)) AS "v_7",
  ROW_NUMBER() OVER () AS "v_1"
FROM "orders"
),
stage_2 AS (
SELECT row_of_data."id" AS "id", row_of_data."v_1" AS "v_1",
  feature_of_model."v_2" AS "v_2", feature_of_model."v_3" AS "v_3", CASE feature_of_model."v_2" WHEN 0 THEN row_of_data."v_6" WHEN 1 THEN row_of_data."v_7" ELSE 0.0e0 END AS "v_4"
FROM stage_1 AS row_of_data
CROSS JOIN (
SELECT 0 AS "v_2", 'x' AS "v_3"
UNION ALL
SELECT 1, 'f'
UNION ALL
SELECT 2, 'n'
UNION ALL
SELECT 3, 'big'
UNION ALL
SELECT 4, 'price'
UNION ALL
SELECT 5, 'ok'
UNION ALL
SELECT 6, 'day'
UNION ALL
SELECT 7, 'at'
UNION ALL
SELECT 8, 'seen'
UNION ALL
SELECT 9, 'it''s "x\y] `z'
) AS feature_of_model
),
stage_3 AS (
SELECT "id", "v_1", "v_3", "v_4", ROW_NUMBER() OVER (PARTITION BY "v_1" ORDER BY ABS("v_4") DESC, "v_2" ASC) AS "v_5"
FROM stage_2
)
SELECT "id", MAX(CASE WHEN "v_5" = 1 THEN "v_3" END) AS "reason_1",
  MAX(CASE WHEN "v_5" = 1 THEN "v_4" END) AS "contribution_1",
  MAX(CASE WHEN "v_5" = 2 THEN "v_3" END) AS "reason_2",
  MAX(CASE WHEN "v_5" = 2 THEN "v_4" END) AS "contribution_2"
FROM stage_3
WHERE "v_5" <= 2
GROUP BY "v_1", "id";

-- a table of reasons by Shapley values
CREATE TABLE "reasons" AS
WITH stage_1 AS (
SELECT "id", "x", "f", "n", "big", "price", "ok", "day", "at", "seen",
  "it's ""x\y] `z", IF("x" < infinity(), 0.5e0, 0.0e0) AS "v_1",
  IF((NOT ("x" < infinity()) OR "x" IS NULL) AND ("x" IS NOT NULL AND NOT is_nan("x")), 0.5e0, 0.0e0) AS "v_2",
  IF((NOT ("x" < infinity()) OR "x" IS NULL) AND (NOT ("x" IS NOT NULL AND NOT is_nan("x")) OR "x" IS NULL), 0.5e0, 0.0e0) AS "v_3",
  IF("x" < 1e-300, 0.5e0, 0.0e0) AS "v_4",
  IF((NOT ("x" < 1e-300) OR "x" IS NULL) AND (NOT ("x" >= -infinity() AND NOT is_nan("x")) OR "x" IS NULL), 0.5e0, 0.0e0) AS "v_5",
  IF((NOT ("x" < 1e-300) OR "x" IS NULL) AND ("x" >= -infinity() AND NOT is_nan("x")), 0.5e0, 0.0e0) AS "v_6",
  IF("n" < -7, 0.5e0, 0.0e0) AS "v_7",
  IF((NOT ("n" < -7) OR "n" IS NULL) AND "n" IS NOT NULL, 0.5e0, 0.0e0) AS "v_8",
  IF((NOT ("n" < -7) OR "n" IS NULL) AND (NOT ("n" IS NOT NULL) OR "n" IS NULL), 0.5e0, 0.0e0) AS "v_9",
  IF("x" < 3.0e0, 0.5e0, 0.0e0) AS "v_10",
  IF("it's ""x\y] `z" IN ('', 'A', 'O''Hare "ORD"') AND "it's ""x\y] `z" IN ('back\slash', 'end \
of line', 'ﬁ '), 0.5e0, 0.0e0) AS "v_11",
  IF("it's ""x\y] `z" IN ('', 'A', 'O''Hare "ORD"') AND (NOT ("it's ""x\y] `z" IN ('back\slash', 'end \
of line', 'ﬁ ')) OR "it's ""x\y] `z" IS NULL), 0.5e0, 0.0e0) AS "v_12",
  IF("it's ""x\y] `z" IN ('', 'A', 'O''Hare "ORD"'), 0.5e0, 0.0e0) AS "v_13"
FROM "orders"
WHERE id > 7
),
stage_2 AS (
SELECT "id", ((((IF("x" >= 0.1e0 AND NOT is_nan("x"), 0.3125e0, -0.3125e0) +
  (((-0.166666666666667e0) + "v_1") + (((-0.333333333333333e0) + 2.0e0 * "v_2") + (0.333333333333333e0 + (-2.0e0) * "v_3")))) + (
  (((-0.0416666666666667e0) + 0.25e0 * "v_4") + (((-0.0833333333333333e0) + 0.5e0 * "v_5") + ((-0.25e0) + 1.5e0 * "v_6"))) +
  (((-0.333333333333333e0) + "v_10") * ((0.1875e0 + "v_11") + (0.5625e0 + 3.0e0 * "v_12")) + (0.375e0 + "v_13") * (1.33333333333333e0 + (-4.0e0) * "v_10")))
) + 12288.0e0) - 12288.0e0) AS "v_19",
  ((IF("f" < 0.10000000149011612e0, 0.5e0, -0.5e0) + 12288.0e0) - 12288.0e0) AS "v_20",
  (((((-0.166666666666667e0) + "v_7") + ((0.166666666666667e0 - "v_8") + ((-0.0833333333333333e0) + 0.5e0 * "v_9"))) + 12288.0e0) - 12288.0e0) AS "v_21",
  ((IF("big" < DECIMAL '18446744073709551615', 0.5e0, -0.5e0) + 12288.0e0) - 12288.0e0) AS "v_22",
  ((IF("price" >= DECIMAL '-1.005', -0.5e0, 0.5e0) + 12288.0e0) - 12288.0e0) AS "v_23",
  (((IF("ok", -0.5e0, 0.5e0) + (
  IF(NOT "ok", 0.5e0, -0.5e0) +
  IF("ok" IS NOT NULL, -0.5e0, 0.5e0))) + 12288.0e0) - 12288.0e0) AS "v_24",
  ((IF("day" < DATE '2024-02-29', 0.5e0, -0.5e0) + 12288.0e0) - 12288.0e0) AS "v_25",
  ((IF("at" >= TIMESTAMP '2024-02-29 00:00:01.5', -0.5e0, 0.5e0) + 12288.0e0) - 12288.0e0) AS "v_26",
  ((IF("seen" < TIMESTAMP '2024-02-29 00:00:00.000001 UTC', 0.5e0, -0.5e0) + 12288.0e0) - 12288.0e0) AS "v_27",
  (((((0.375e0 - "v_13") + ((0.333333333333333e0 + "v_10") * (((-0.1875e0) + "v_11") + ((-0.5625e0) + 3.0e0 * "v_12")) + ((-0.375e0) + "v_13") * (2.66666666666667e0 + (-4.0e0) * "v_10"))) +
  IF("it's ""x\y] `z" = 'A', 0.5e0, -0.5e0)
) + 12288.0e0) - 12288.0e0) AS "v_28", ROW_NUMBER() OVER () AS "v_14"
FROM stage_1
),
stage_3 AS (
SELECT row_of_data."id" AS "id", row_of_data."v_14" AS "v_14",
  feature_of_model."v_15" AS "v_15", feature_of_model."v_16" AS "v_16", CASE feature_of_model."v_15" WHEN 0 THEN row_of_data."v_19" WHEN 1 THEN row_of_data."v_20" WHEN 2 THEN row_of_data."v_21" WHEN 3 THEN row_of_data."v_22" WHEN 4 THEN row_of_data."v_23" WHEN 5 THEN row_of_data."v_24" WHEN 6 THEN row_of_data."v_25" WHEN 7 THEN row_of_data."v_26" WHEN 8 THEN row_of_data."v_27" WHEN 9 THEN row_of_data."v_28" ELSE 0.0e0 END AS "v_17"
FROM stage_2 AS row_of_data
CROSS JOIN (
SELECT 0 AS "v_15", 'x' AS "v_16"
UNION ALL
SELECT 1, 'f'
UNION ALL
SELECT 2, 'n'
UNION ALL
SELECT 3, 'big'
UNION ALL
SELECT 4, 'price'
UNION ALL
SELECT 5, 'ok'
UNION ALL
SELECT 6, 'day'
UNION ALL
SELECT 7, 'at'
UNION ALL
SELECT 8, 'seen'
UNION ALL
SELECT 9, 'it''s "x\y] `z'
) AS feature_of_model
),
stage_4 AS (
SELECT "id", "v_14", "v_16", "v_17", ROW_NUMBER() OVER (PARTITION BY "v_14" ORDER BY "v_17" DESC, "v_15" ASC) AS "v_18"
FROM stage_3
)
SELECT "id",
  MAX(CASE WHEN "v_18" = 1 AND "v_17" > 0.0e0 THEN "v_16" END) AS "reason_1",
  MAX(CASE WHEN "v_18" = 1 AND "v_17" > 0.0e0 THEN "v_17" END) AS "contribution_1"
FROM stage_4
WHERE "v_18" <= 1
GROUP BY "v_14", "id";

-- drift
WITH stage_1 AS (
SELECT COUNT(*) AS "v_1",
  SUM(CASE WHEN "x" IS NULL OR NOT (NOT is_nan("x")) THEN 1 ELSE 0 END) AS "v_2",
  SUM(CASE WHEN "x" < 0.1e0 AND "x" IS NOT NULL AND NOT is_nan("x") THEN 1 ELSE 0 END) AS "v_3",
  SUM(CASE WHEN "x" >= 0.1e0 AND "x" IS NOT NULL AND NOT is_nan("x") THEN 1 ELSE 0 END) AS "v_4",
  SUM(CASE WHEN "ok" IS NULL THEN 1 ELSE 0 END) AS "v_5",
  SUM(CASE WHEN NOT "ok" AND "ok" IS NOT NULL THEN 1 ELSE 0 END) AS "v_6",
  SUM(CASE WHEN "ok" AND "ok" IS NOT NULL THEN 1 ELSE 0 END) AS "v_7",
  SUM(CASE WHEN "it's ""x\y] `z" IS NULL THEN 1 ELSE 0 END) AS "v_8",
  SUM(CASE WHEN "it's ""x\y] `z" = 'O''Hare "ORD"' THEN 1 ELSE 0 END) AS "v_9",
  SUM(CASE WHEN "it's ""x\y] `z" = '' THEN 1 ELSE 0 END) AS "v_10",
  SUM(CASE WHEN "it's ""x\y] `z" IS NOT NULL AND NOT ("it's ""x\y] `z" IN ('O''Hare "ORD"', '')) THEN 1 ELSE 0 END) AS "v_11"
FROM "orders"
),
stage_2 AS (
SELECT b."place" AS "place", b."feature_number" AS "feature_number", b."feature" AS "feature", b."bin" AS "bin", b."label" AS "label", b."training_share" AS "training_share", COALESCE(1.0e0 * CASE b."place" WHEN 0 THEN a."v_2" WHEN 1 THEN a."v_3" WHEN 2 THEN a."v_4" WHEN 3 THEN a."v_5" WHEN 4 THEN a."v_6" WHEN 5 THEN a."v_7" WHEN 6 THEN a."v_8" WHEN 7 THEN a."v_9" WHEN 8 THEN a."v_10" WHEN 9 THEN a."v_11" END / NULLIF(a."v_1", 0), 0.0e0) AS "share"
FROM stage_1 AS a
CROSS JOIN (
SELECT 0 AS "place", 0 AS "feature_number", 'x' AS "feature", -1 AS "bin", 'missing' AS "label", 0.0e0 AS "training_share"
UNION ALL
SELECT 1, 0, 'x', 0, 'below 0.1', 0.5e0
UNION ALL
SELECT 2, 0, 'x', 1, 'from 0.1', 0.5e0
UNION ALL
SELECT 3, 5, 'ok', -1, 'missing', 0.0e0
UNION ALL
SELECT 4, 5, 'ok', 0, 'below true', 0.5e0
UNION ALL
SELECT 5, 5, 'ok', 1, 'from true', 0.5e0
UNION ALL
SELECT 6, 9, 'it''s "x\y] `z', -1, 'missing', 0.25e0
UNION ALL
SELECT 7, 9, 'it''s "x\y] `z', 0, 'O''Hare "ORD"', 0.5e0
UNION ALL
SELECT 8, 9, 'it''s "x\y] `z', 1, '', 0.125e0
UNION ALL
SELECT 9, 9, 'it''s "x\y] `z', 2, 'other', 0.125e0
) AS b
)
SELECT "feature", "bin", "label", "training_share", "share", SUM((CASE WHEN "share" < 0.0001e0 THEN 0.0001e0 ELSE "share" END - CASE WHEN "training_share" < 0.0001e0 THEN 0.0001e0 ELSE "training_share" END) * LN((CASE WHEN "share" < 0.0001e0 THEN 0.0001e0 ELSE "share" END) / (CASE WHEN "training_share" < 0.0001e0 THEN 0.0001e0 ELSE "training_share" END))) OVER (PARTITION BY "feature_number") AS "psi"
FROM stage_2
ORDER BY "psi" DESC, "feature_number" ASC, "bin" ASC;
