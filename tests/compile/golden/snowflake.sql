-- margin, one expression
(((('0.5'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT)) + (
  IFF("x" < 'inf'::FLOAT,
    '0.5'::FLOAT,
    IFF("x" IS NOT NULL AND "x" <= 'inf'::FLOAT, '1.0'::FLOAT, '-1.0'::FLOAT)) +
  IFF("x" < '1e-300'::FLOAT,
    '0.125'::FLOAT,
    IFF("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT, '0.75'::FLOAT, '0.25'::FLOAT)))) + ((
  IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT) +
  IFF("n" < -7, '0.5'::FLOAT, IFF("n" IS NOT NULL, '-0.5'::FLOAT, '0.25'::FLOAT))) + (
  IFF("big" < 18446744073709551615, '0.5'::FLOAT, '-0.5'::FLOAT) +
  IFF("price" >= -1.005, '-0.5'::FLOAT, '0.5'::FLOAT)))) + (((
  IFF("ok", '-0.5'::FLOAT, '0.5'::FLOAT) +
  IFF(NOT "ok", '0.5'::FLOAT, '-0.5'::FLOAT)) + (
  IFF("ok" IS NOT NULL, '-0.5'::FLOAT, '0.5'::FLOAT) +
  IFF("day" < TO_DATE('2024-02-29', 'YYYY-MM-DD'), '0.5'::FLOAT, '-0.5'::FLOAT))) + ((
  IFF("at" >= TO_TIMESTAMP_NTZ('2024-02-29 00:00:01.500000000', 'YYYY-MM-DD HH24:MI:SS.FF9'),
    '-0.5'::FLOAT,
    '0.5'::FLOAT) +
  IFF("seen" < TO_TIMESTAMP_TZ('2024-02-29 00:00:00.000001000 +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM'),
    '0.5'::FLOAT,
    '-0.5'::FLOAT)) + (
  IFF(COLLATE("it's ""x\y] `z", 'utf8') IN ('', 'A', 'O''Hare "ORD"'),
    IFF("x" < '3.0'::FLOAT, '1.5'::FLOAT, '2.0'::FLOAT),
    '0.5'::FLOAT) +
  IFF(COLLATE("it's ""x\y] `z", 'utf8') = 'A', '0.5'::FLOAT, '-0.5'::FLOAT))))
);

-- query, of all columns
SELECT *, ('1.0'::FLOAT / ('1.0'::FLOAT + EXP(LEAST(GREATEST((-('-1.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT))), -708), 709)))) AS "prediction"
FROM "shop"."orders"
WHERE 1 = 1;

-- query, of classes
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT) +
  IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT)) AS "v_1",
  IFF("x" < '1e-300'::FLOAT,
    '0.125'::FLOAT,
    IFF("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT, '0.75'::FLOAT, '0.25'::FLOAT)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", ('0.5'::FLOAT +
  "v_1") AS "v_3", '0.0'::FLOAT AS "v_4", ('-0.25'::FLOAT +
  "v_2") AS "v_5"
FROM stage_1
)
SELECT "id",
  CAST(CASE WHEN ("v_3" >= GREATEST("v_4", "v_5")) THEN '0.0'::FLOAT WHEN ("v_4" >= "v_5") THEN '1.0'::FLOAT ELSE '2.0'::FLOAT END AS NUMBER(38, 0)) AS "prediction"
FROM stage_2;

-- query in stages
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT) +
  IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT)) AS "v_1",
  IFF("x" < '1e-300'::FLOAT,
    '0.125'::FLOAT,
    IFF("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT, '0.75'::FLOAT, '0.25'::FLOAT)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", ('0.5'::FLOAT +
  "v_1") AS "v_3", '0.0'::FLOAT AS "v_4", ('-0.25'::FLOAT +
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
  EXP(LEAST(GREATEST(("v_3" - "v_6"), -708), 709)) AS "v_7",
  EXP(LEAST(GREATEST(("v_4" - "v_6"), -708), 709)) AS "v_8",
  EXP(LEAST(GREATEST(("v_5" - "v_6"), -708), 709)) AS "v_9"
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
SELECT "id", CAST(('0.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '2.0'::FLOAT, '1.0'::FLOAT)) AS NUMBER(38, 0)) AS "leaf_0",
  CAST(('0.0'::FLOAT +
  IFF("x" < '1e-300'::FLOAT,
    '1.0'::FLOAT,
    IFF("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT, '4.0'::FLOAT, '3.0'::FLOAT))
) AS NUMBER(38, 0)) AS "leaf_1", CAST(('0.0'::FLOAT +
  IFF("f" < '0.10000000149011612'::FLOAT, '1.0'::FLOAT, '2.0'::FLOAT)) AS NUMBER(38, 0)) AS "leaf_2"
FROM "orders";

-- query that nobody reads
WITH stage_1 AS (
SELECT "id", "x", "f", "n", "big", "price", "ok", "day", "at", "seen",
  "it's ""x\y] `z", "x" AS "v_1", "f" AS "v_2", "n" AS "v_3", "big" AS "v_4",
  "price" AS "v_5", "ok" AS "v_6", "day" AS "v_7", "at" AS "v_8",
  "seen" AS "v_9",
  CASE COLLATE("it's ""x\y] `z", 'utf8') WHEN '' THEN 0 WHEN 'A' THEN 1 WHEN 'O''Hare "ORD"' THEN 2 WHEN 'back\\slash' THEN 3 ELSE CASE WHEN "it's ""x\y] `z" IS NOT NULL THEN -1 END END AS "v_10"
FROM "orders"
)
SELECT "id", (((((4 +
  IFF("v_1" >= '0.1'::FLOAT AND "v_1" <= 'inf'::FLOAT, 3, -2)) + (
  IFF("v_1" < 'inf'::FLOAT, 4, IFF("v_1" IS NOT NULL AND "v_1" <= 'inf'::FLOAT, 8, -8)) +
  IFF("v_1" < '1e-300'::FLOAT, 1, IFF("v_1" >= '-inf'::FLOAT AND "v_1" <= 'inf'::FLOAT, 6, 2)))) + ((
  IFF("v_2" < '0.10000000149011612'::FLOAT, 4, -4) +
  IFF("v_3" < -7, 4, IFF("v_3" IS NOT NULL, -4, 2))) + (
  IFF("v_4" < 18446744073709551615, 4, -4) +
  IFF("v_5" >= -1.005, -4, 4)))) + (((
  IFF("v_6", -4, 4) +
  IFF(NOT "v_6", 4, -4)) + (
  IFF("v_6" IS NOT NULL, -4, 4) +
  IFF("v_7" < TO_DATE('2024-02-29', 'YYYY-MM-DD'), 4, -4))) + ((
  IFF("v_8" >= TO_TIMESTAMP_NTZ('2024-02-29 00:00:01.500000000', 'YYYY-MM-DD HH24:MI:SS.FF9'), -4, 4) +
  IFF("v_9" < TO_TIMESTAMP_TZ('2024-02-29 00:00:00.000001000 +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM'),
    4,
    -4)) + (
  IFF("v_10" IN (0, 1, 2), IFF("v_1" < '3.0'::FLOAT, 12, 16), 4) + (
  IFF("v_10" = 1, 4, -4) +
  ARRAY_CONSTRUCT(2,-4,6,2,2,-4,6,2)[IFF("v_1" < '3.0'::FLOAT, 0, 4) + IFF("v_3" >= 5, 2, 0) + IFF("v_10" IN (1, 3), 0, 1)]::FLOAT))))
) * '0.125'::FLOAT) AS "prediction"
FROM stage_1;

-- trees, statement 1
CREATE TABLE "shop"."trees" (
  "id" NUMBER(38, 0),
  "named_by" NUMBER(38, 0),
  "tree" NUMBER(38, 0),
  "node" NUMBER(38, 0),
  "output" NUMBER(38, 0),
  "feature" NUMBER(38, 0),
  "missing" NUMBER(38, 0),
  "left" NUMBER(38, 0),
  "right" NUMBER(38, 0),
  "threshold_float64" FLOAT,
  "threshold_int64" NUMBER(38, 0),
  "threshold_uint64" NUMBER(38, 0),
  "threshold_decimal_12_3" NUMBER(12, 3),
  "threshold_date" DATE,
  "threshold_timestamp_us" TIMESTAMP_NTZ,
  "threshold_timestamptz_us" TIMESTAMP_TZ,
  "category" VARCHAR,
  "value" FLOAT
);

-- trees, statement 2
INSERT INTO "shop"."trees" ("id", "named_by", "tree", "node", "output", "feature", "missing", "left", "right", "threshold_float64", "threshold_int64", "threshold_uint64", "threshold_decimal_12_3", "threshold_date", "threshold_timestamp_us", "threshold_timestamptz_us", "category", "value")
SELECT 0, NULL, 0, 0, 0, 0, 1, 1, 2, '0.1'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 1, NULL, 0, 1, 0, NULL, 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.25'::FLOAT
UNION ALL SELECT 2, NULL, 0, 2, 0, NULL, 2, 2, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.375'::FLOAT
UNION ALL SELECT 3, NULL, 1, 0, 0, 0, 5, 4, 5, 'inf'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 4, NULL, 1, 1, 0, NULL, 4, 4, 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 5, NULL, 1, 2, 0, 0, 7, 6, 6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 6, NULL, 1, 3, 0, NULL, 6, 6, 6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1.0'::FLOAT
UNION ALL SELECT 7, NULL, 1, 4, 0, NULL, 7, 7, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-1.0'::FLOAT
UNION ALL SELECT 8, NULL, 2, 0, 0, 0, 10, 9, 10, '1e-300'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 9, NULL, 2, 1, 0, NULL, 9, 9, 9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.125'::FLOAT
UNION ALL SELECT 10, NULL, 2, 2, 0, 0, 11, 11, 12, '-inf'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 11, NULL, 2, 3, 0, NULL, 11, 11, 11, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.25'::FLOAT
UNION ALL SELECT 12, NULL, 2, 4, 0, NULL, 12, 12, 12, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.75'::FLOAT
UNION ALL SELECT 13, NULL, 3, 0, 0, 1, 15, 14, 15, '0.10000000149011612'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 14, NULL, 3, 1, 0, NULL, 14, 14, 14, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 15, NULL, 3, 2, 0, NULL, 15, 15, 15, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 16, NULL, 4, 0, 0, 2, 18, 17, 18, NULL, -7, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 17, NULL, 4, 1, 0, NULL, 17, 17, 17, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 18, NULL, 4, 2, 0, 2, 20, 19, 19, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 19, NULL, 4, 3, 0, NULL, 19, 19, 19, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 20, NULL, 4, 4, 0, NULL, 20, 20, 20, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.25'::FLOAT
UNION ALL SELECT 21, NULL, 5, 0, 0, 3, 23, 22, 23, NULL, NULL, 18446744073709551615, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 22, NULL, 5, 1, 0, NULL, 22, 22, 22, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 23, NULL, 5, 2, 0, NULL, 23, 23, 23, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 24, NULL, 6, 0, 0, 4, 25, 25, 26, NULL, NULL, NULL, -1.005, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 25, NULL, 6, 1, 0, NULL, 25, 25, 25, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 26, NULL, 6, 2, 0, NULL, 26, 26, 26, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 27, NULL, 7, 0, 0, 5, 28, 28, 29, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 28, NULL, 7, 1, 0, NULL, 28, 28, 28, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 29, NULL, 7, 2, 0, NULL, 29, 29, 29, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 30, NULL, 8, 0, 0, 5, 32, 31, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 31, NULL, 8, 1, 0, NULL, 31, 31, 31, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 32, NULL, 8, 2, 0, NULL, 32, 32, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 33, NULL, 9, 0, 0, 5, 34, 35, 35, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 34, NULL, 9, 1, 0, NULL, 34, 34, 34, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 35, NULL, 9, 2, 0, NULL, 35, 35, 35, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 36, NULL, 10, 0, 0, 6, 38, 37, 38, NULL, NULL, NULL, NULL, TO_DATE('2024-02-29', 'YYYY-MM-DD'), NULL, NULL, NULL, NULL
UNION ALL SELECT 37, NULL, 10, 1, 0, NULL, 37, 37, 37, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 38, NULL, 10, 2, 0, NULL, 38, 38, 38, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 39, NULL, 11, 0, 0, 7, 40, 40, 41, NULL, NULL, NULL, NULL, NULL, TO_TIMESTAMP_NTZ('2024-02-29 00:00:01.500000000', 'YYYY-MM-DD HH24:MI:SS.FF9'), NULL, NULL, NULL
UNION ALL SELECT 40, NULL, 11, 1, 0, NULL, 40, 40, 40, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 41, NULL, 11, 2, 0, NULL, 41, 41, 41, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT 42, NULL, 12, 0, 0, 8, 44, 43, 44, NULL, NULL, NULL, NULL, NULL, NULL, TO_TIMESTAMP_TZ('2024-02-29 00:00:00.000001000 +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM'), NULL, NULL
UNION ALL SELECT 43, NULL, 12, 1, 0, NULL, 43, 43, 43, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 44, NULL, 12, 2, 0, NULL, 44, 44, 44, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT
UNION ALL SELECT NULL, 45, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL
UNION ALL SELECT NULL, 45, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'A', NULL
UNION ALL SELECT NULL, 45, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'O''Hare "ORD"', NULL
UNION ALL SELECT 45, NULL, 13, 0, 0, 9, 46, 47, 46, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 46, NULL, 13, 1, 0, NULL, 46, 46, 46, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 47, NULL, 13, 2, 0, 0, 51, 48, 51, '3.0'::FLOAT, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'back\\slash', NULL
UNION ALL SELECT NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'end \\\nof line', NULL
UNION ALL SELECT NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ﬁ ', NULL
UNION ALL SELECT 48, NULL, 13, 3, 0, 9, 50, 49, 50, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 49, NULL, 13, 4, 0, NULL, 49, 49, 49, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 50, NULL, 13, 5, 0, NULL, 50, 50, 50, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1.5'::FLOAT
UNION ALL SELECT 51, NULL, 13, 6, 0, NULL, 51, 51, 51, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2.0'::FLOAT
UNION ALL SELECT NULL, 52, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'A', NULL
UNION ALL SELECT 52, NULL, 14, 0, 0, 9, 54, 53, 54, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT 53, NULL, 14, 1, 0, NULL, 53, 53, 53, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0.5'::FLOAT
UNION ALL SELECT 54, NULL, 14, 2, 0, NULL, 54, 54, 54, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-0.5'::FLOAT;

-- query over the table of trees
WITH stage_1 AS (
SELECT "id", "x", "f", "n", "big", "price", "ok", "day", "at", "seen",
  "it's ""x\y] `z", ROW_NUMBER() OVER (ORDER BY 1) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND row_of_data."x" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND row_of_data."f" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_1 AS row_of_data
CROSS JOIN "shop"."trees" AS node_of_tree
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND COLLATE(named_by_node."category", 'utf8') = CASE node_of_tree."feature" WHEN 9 THEN COLLATE(row_of_data."it's ""x\y] `z", 'utf8') END
WHERE node_of_tree."node" = 0
),
stage_3 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND row_of_data."x" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND row_of_data."f" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_2 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND COLLATE(named_by_node."category", 'utf8') = CASE node_of_tree."feature" WHEN 9 THEN COLLATE(row_of_data."it's ""x\y] `z", 'utf8') END
),
stage_4 AS (
SELECT row_of_data."v_2" AS "v_2", row_of_data."id" AS "id", row_of_data."x" AS "x", row_of_data."f" AS "f", row_of_data."n" AS "n", row_of_data."big" AS "big", row_of_data."price" AS "price", row_of_data."ok" AS "ok", row_of_data."day" AS "day", row_of_data."at" AS "at", row_of_data."seen" AS "seen", row_of_data."it's ""x\y] `z" AS "it's ""x\y] `z", CASE node_of_tree."feature" WHEN 0 THEN CASE WHEN row_of_data."x" IS NOT NULL AND row_of_data."x" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."x" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 1 THEN CASE WHEN row_of_data."f" IS NOT NULL AND row_of_data."f" <= 'inf'::FLOAT THEN CASE WHEN row_of_data."f" >= node_of_tree."threshold_float64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 2 THEN CASE WHEN row_of_data."n" IS NOT NULL THEN CASE WHEN row_of_data."n" >= node_of_tree."threshold_int64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 3 THEN CASE WHEN row_of_data."big" IS NOT NULL THEN CASE WHEN row_of_data."big" >= node_of_tree."threshold_uint64" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 4 THEN CASE WHEN row_of_data."price" IS NOT NULL THEN CASE WHEN row_of_data."price" >= node_of_tree."threshold_decimal_12_3" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 5 THEN CASE WHEN row_of_data."ok" IS NULL THEN node_of_tree."missing" WHEN row_of_data."ok" THEN node_of_tree."right" ELSE node_of_tree."left" END WHEN 6 THEN CASE WHEN row_of_data."day" IS NOT NULL THEN CASE WHEN row_of_data."day" >= node_of_tree."threshold_date" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 7 THEN CASE WHEN row_of_data."at" IS NOT NULL THEN CASE WHEN row_of_data."at" >= node_of_tree."threshold_timestamp_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 8 THEN CASE WHEN row_of_data."seen" IS NOT NULL THEN CASE WHEN row_of_data."seen" >= node_of_tree."threshold_timestamptz_us" THEN node_of_tree."right" ELSE node_of_tree."left" END ELSE node_of_tree."missing" END WHEN 9 THEN CASE WHEN row_of_data."it's ""x\y] `z" IS NULL THEN node_of_tree."missing" WHEN named_by_node."named_by" IS NOT NULL THEN node_of_tree."left" ELSE node_of_tree."right" END ELSE node_of_tree."id" END AS "v_3"
FROM stage_3 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
LEFT JOIN "shop"."trees" AS named_by_node ON named_by_node."named_by" = node_of_tree."id" AND COLLATE(named_by_node."category", 'utf8') = CASE node_of_tree."feature" WHEN 9 THEN COLLATE(row_of_data."it's ""x\y] `z", 'utf8') END
),
stage_5 AS (
SELECT row_of_data."id" AS "id", SUM(node_of_tree."value") AS "v_1"
FROM stage_4 AS row_of_data
JOIN "shop"."trees" AS node_of_tree ON node_of_tree."id" = row_of_data."v_3"
GROUP BY row_of_data."v_2", row_of_data."id"
)
SELECT "id", ('0.5'::FLOAT + "v_1") AS "prediction"
FROM stage_5;

-- view
CREATE VIEW "scored" AS
SELECT "id",
  ('1.0'::FLOAT / ('1.0'::FLOAT + EXP(LEAST(GREATEST((-('-1.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT))), -708), 709)))) AS "prediction"
FROM "orders";

-- table
CREATE TABLE "scored" AS
SELECT "id",
  CAST(CASE WHEN (('1.0'::FLOAT / ('1.0'::FLOAT + EXP(LEAST(GREATEST((-('-1.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT))), -708), 709)))) > '0.5'::FLOAT) THEN '1.0'::FLOAT ELSE '0.0'::FLOAT END AS NUMBER(38, 0)) AS "prediction"
FROM "orders"
WHERE id > 7;

-- table, in stages
CREATE TABLE "scored" AS
WITH stage_1 AS (
SELECT "id", "x", "f", (
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT) +
  IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT)) AS "v_1",
  IFF("x" < '1e-300'::FLOAT,
    '0.125'::FLOAT,
    IFF("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT, '0.75'::FLOAT, '0.25'::FLOAT)) AS "v_2"
FROM "orders"
),
stage_2 AS (
SELECT "id", "x", "f", "v_1", "v_2", ('0.5'::FLOAT +
  "v_1") AS "v_3", '0.0'::FLOAT AS "v_4", ('-0.25'::FLOAT +
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
  EXP(LEAST(GREATEST(("v_3" - "v_6"), -708), 709)) AS "v_7",
  EXP(LEAST(GREATEST(("v_4" - "v_6"), -708), 709)) AS "v_8",
  EXP(LEAST(GREATEST(("v_5" - "v_6"), -708), 709)) AS "v_9"
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
SET "score" = ('1.0'::FLOAT / ('1.0'::FLOAT + EXP(LEAST(GREATEST((-('-1.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.375'::FLOAT, '-0.25'::FLOAT))), -708), 709))));

-- contributions
SELECT "id", ('0.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.3125'::FLOAT, '-0.3125'::FLOAT)
) AS "x", '0.0'::FLOAT AS "f", '0.0'::FLOAT AS "n",
  '-0.9375'::FLOAT AS "bias"
FROM "orders";

-- reasons
WITH stage_1 AS (
SELECT "id", ('0.0'::FLOAT +
  IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.3125'::FLOAT, '-0.3125'::FLOAT)
) AS "v_6", ('0.0'::FLOAT +
  IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT)) AS "v_7",
  ROW_NUMBER() OVER (ORDER BY 1) AS "v_1"
FROM "orders"
),
stage_2 AS (
SELECT row_of_data."id" AS "id", row_of_data."v_1" AS "v_1",
  feature_of_model."v_2" AS "v_2", feature_of_model."v_3" AS "v_3", CASE feature_of_model."v_2" WHEN 0 THEN row_of_data."v_6" WHEN 1 THEN row_of_data."v_7" ELSE '0.0'::FLOAT END AS "v_4"
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
SELECT 9, 'it''s "x\\y] `z'
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
  "it's ""x\y] `z",
  IFF("x" < 'inf'::FLOAT, '0.5'::FLOAT, '0.0'::FLOAT) AS "v_1",
  IFF((NOT ("x" < 'inf'::FLOAT) OR "x" IS NULL) AND ("x" IS NOT NULL AND "x" <= 'inf'::FLOAT), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_2",
  IFF((NOT ("x" < 'inf'::FLOAT) OR "x" IS NULL) AND (NOT ("x" IS NOT NULL AND "x" <= 'inf'::FLOAT) OR "x" IS NULL), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_3",
  IFF("x" < '1e-300'::FLOAT, '0.5'::FLOAT, '0.0'::FLOAT) AS "v_4",
  IFF((NOT ("x" < '1e-300'::FLOAT) OR "x" IS NULL) AND (NOT ("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT) OR "x" IS NULL), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_5",
  IFF((NOT ("x" < '1e-300'::FLOAT) OR "x" IS NULL) AND ("x" >= '-inf'::FLOAT AND "x" <= 'inf'::FLOAT), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_6",
  IFF("n" < -7, '0.5'::FLOAT, '0.0'::FLOAT) AS "v_7",
  IFF((NOT ("n" < -7) OR "n" IS NULL) AND "n" IS NOT NULL, '0.5'::FLOAT, '0.0'::FLOAT) AS "v_8",
  IFF((NOT ("n" < -7) OR "n" IS NULL) AND (NOT ("n" IS NOT NULL) OR "n" IS NULL), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_9",
  IFF("x" < '3.0'::FLOAT, '0.5'::FLOAT, '0.0'::FLOAT) AS "v_10",
  IFF(COLLATE("it's ""x\y] `z", 'utf8') IN ('', 'A', 'O''Hare "ORD"') AND COLLATE("it's ""x\y] `z", 'utf8') IN ('back\\slash', 'end \\\nof line', 'ﬁ '), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_11",
  IFF(COLLATE("it's ""x\y] `z", 'utf8') IN ('', 'A', 'O''Hare "ORD"') AND (NOT (COLLATE("it's ""x\y] `z", 'utf8') IN ('back\\slash', 'end \\\nof line', 'ﬁ ')) OR "it's ""x\y] `z" IS NULL), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_12",
  IFF(COLLATE("it's ""x\y] `z", 'utf8') IN ('', 'A', 'O''Hare "ORD"'), '0.5'::FLOAT, '0.0'::FLOAT) AS "v_13"
FROM "orders"
WHERE id > 7
),
stage_2 AS (
SELECT "id",
  ((((IFF("x" >= '0.1'::FLOAT AND "x" <= 'inf'::FLOAT, '0.3125'::FLOAT, '-0.3125'::FLOAT) +
  (('-0.166666666666667'::FLOAT + "v_1") + (('-0.333333333333333'::FLOAT + '2.0'::FLOAT * "v_2") + ('0.333333333333333'::FLOAT + '-2.0'::FLOAT * "v_3")))) + (
  (('-0.0416666666666667'::FLOAT + '0.25'::FLOAT * "v_4") + (('-0.0833333333333333'::FLOAT + '0.5'::FLOAT * "v_5") + ('-0.25'::FLOAT + '1.5'::FLOAT * "v_6"))) +
  (('-0.333333333333333'::FLOAT + "v_10") * (('0.1875'::FLOAT + "v_11") + ('0.5625'::FLOAT + '3.0'::FLOAT * "v_12")) + ('0.375'::FLOAT + "v_13") * ('1.33333333333333'::FLOAT + '-4.0'::FLOAT * "v_10")))
) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_19",
  ((IFF("f" < '0.10000000149011612'::FLOAT, '0.5'::FLOAT, '-0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_20",
  (((('-0.166666666666667'::FLOAT + "v_7") + (('0.166666666666667'::FLOAT - "v_8") + ('-0.0833333333333333'::FLOAT + '0.5'::FLOAT * "v_9"))) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_21",
  ((IFF("big" < 18446744073709551615, '0.5'::FLOAT, '-0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_22",
  ((IFF("price" >= -1.005, '-0.5'::FLOAT, '0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_23",
  (((IFF("ok", '-0.5'::FLOAT, '0.5'::FLOAT) + (
  IFF(NOT "ok", '0.5'::FLOAT, '-0.5'::FLOAT) +
  IFF("ok" IS NOT NULL, '-0.5'::FLOAT, '0.5'::FLOAT))
) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_24",
  ((IFF("day" < TO_DATE('2024-02-29', 'YYYY-MM-DD'), '0.5'::FLOAT, '-0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_25",
  ((IFF("at" >= TO_TIMESTAMP_NTZ('2024-02-29 00:00:01.500000000', 'YYYY-MM-DD HH24:MI:SS.FF9'), '-0.5'::FLOAT, '0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_26",
  ((IFF("seen" < TO_TIMESTAMP_TZ('2024-02-29 00:00:00.000001000 +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM'), '0.5'::FLOAT, '-0.5'::FLOAT) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_27",
  ((((('0.375'::FLOAT - "v_13") + (('0.333333333333333'::FLOAT + "v_10") * (('-0.1875'::FLOAT + "v_11") + ('-0.5625'::FLOAT + '3.0'::FLOAT * "v_12")) + ('-0.375'::FLOAT + "v_13") * ('2.66666666666667'::FLOAT + '-4.0'::FLOAT * "v_10"))) +
  IFF(COLLATE("it's ""x\y] `z", 'utf8') = 'A', '0.5'::FLOAT, '-0.5'::FLOAT)
) + '12288.0'::FLOAT) - '12288.0'::FLOAT) AS "v_28",
  ROW_NUMBER() OVER (ORDER BY 1) AS "v_14"
FROM stage_1
),
stage_3 AS (
SELECT row_of_data."id" AS "id", row_of_data."v_14" AS "v_14",
  feature_of_model."v_15" AS "v_15", feature_of_model."v_16" AS "v_16", CASE feature_of_model."v_15" WHEN 0 THEN row_of_data."v_19" WHEN 1 THEN row_of_data."v_20" WHEN 2 THEN row_of_data."v_21" WHEN 3 THEN row_of_data."v_22" WHEN 4 THEN row_of_data."v_23" WHEN 5 THEN row_of_data."v_24" WHEN 6 THEN row_of_data."v_25" WHEN 7 THEN row_of_data."v_26" WHEN 8 THEN row_of_data."v_27" WHEN 9 THEN row_of_data."v_28" ELSE '0.0'::FLOAT END AS "v_17"
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
SELECT 9, 'it''s "x\\y] `z'
) AS feature_of_model
),
stage_4 AS (
SELECT "id", "v_14", "v_16", "v_17", ROW_NUMBER() OVER (PARTITION BY "v_14" ORDER BY "v_17" DESC, "v_15" ASC) AS "v_18"
FROM stage_3
)
SELECT "id",
  MAX(CASE WHEN "v_18" = 1 AND "v_17" > '0.0'::FLOAT THEN "v_16" END) AS "reason_1",
  MAX(CASE WHEN "v_18" = 1 AND "v_17" > '0.0'::FLOAT THEN "v_17" END) AS "contribution_1"
FROM stage_4
WHERE "v_18" <= 1
GROUP BY "v_14", "id";

-- drift
WITH stage_1 AS (
SELECT COUNT(*) AS "v_1",
  SUM(CASE WHEN "x" IS NULL OR NOT ("x" <= 'inf'::FLOAT) THEN 1 ELSE 0 END) AS "v_2",
  SUM(CASE WHEN "x" < '0.1'::FLOAT AND "x" IS NOT NULL AND "x" <= 'inf'::FLOAT THEN 1 ELSE 0 END) AS "v_3",
  SUM(CASE WHEN "x" >= '0.1'::FLOAT AND "x" IS NOT NULL AND "x" <= 'inf'::FLOAT THEN 1 ELSE 0 END) AS "v_4",
  SUM(CASE WHEN "ok" IS NULL THEN 1 ELSE 0 END) AS "v_5",
  SUM(CASE WHEN NOT "ok" AND "ok" IS NOT NULL THEN 1 ELSE 0 END) AS "v_6",
  SUM(CASE WHEN "ok" AND "ok" IS NOT NULL THEN 1 ELSE 0 END) AS "v_7",
  SUM(CASE WHEN "it's ""x\y] `z" IS NULL THEN 1 ELSE 0 END) AS "v_8",
  SUM(CASE WHEN COLLATE("it's ""x\y] `z", 'utf8') = 'O''Hare "ORD"' THEN 1 ELSE 0 END) AS "v_9",
  SUM(CASE WHEN COLLATE("it's ""x\y] `z", 'utf8') = '' THEN 1 ELSE 0 END) AS "v_10",
  SUM(CASE WHEN "it's ""x\y] `z" IS NOT NULL AND NOT (COLLATE("it's ""x\y] `z", 'utf8') IN ('O''Hare "ORD"', '')) THEN 1 ELSE 0 END) AS "v_11"
FROM "orders"
),
stage_2 AS (
SELECT b."place" AS "place", b."feature_number" AS "feature_number", b."feature" AS "feature", b."bin" AS "bin", b."label" AS "label", b."training_share" AS "training_share", COALESCE('1.0'::FLOAT * CASE b."place" WHEN 0 THEN a."v_2" WHEN 1 THEN a."v_3" WHEN 2 THEN a."v_4" WHEN 3 THEN a."v_5" WHEN 4 THEN a."v_6" WHEN 5 THEN a."v_7" WHEN 6 THEN a."v_8" WHEN 7 THEN a."v_9" WHEN 8 THEN a."v_10" WHEN 9 THEN a."v_11" END / NULLIF(a."v_1", 0), '0.0'::FLOAT) AS "share"
FROM stage_1 AS a
CROSS JOIN (
SELECT 0 AS "place", 0 AS "feature_number", 'x' AS "feature", -1 AS "bin", 'missing' AS "label", '0.0'::FLOAT AS "training_share"
UNION ALL
SELECT 1, 0, 'x', 0, 'below 0.1', '0.5'::FLOAT
UNION ALL
SELECT 2, 0, 'x', 1, 'from 0.1', '0.5'::FLOAT
UNION ALL
SELECT 3, 5, 'ok', -1, 'missing', '0.0'::FLOAT
UNION ALL
SELECT 4, 5, 'ok', 0, 'below true', '0.5'::FLOAT
UNION ALL
SELECT 5, 5, 'ok', 1, 'from true', '0.5'::FLOAT
UNION ALL
SELECT 6, 9, 'it''s "x\\y] `z', -1, 'missing', '0.25'::FLOAT
UNION ALL
SELECT 7, 9, 'it''s "x\\y] `z', 0, 'O''Hare "ORD"', '0.5'::FLOAT
UNION ALL
SELECT 8, 9, 'it''s "x\\y] `z', 1, '', '0.125'::FLOAT
UNION ALL
SELECT 9, 9, 'it''s "x\\y] `z', 2, 'other', '0.125'::FLOAT
) AS b
)
SELECT "feature", "bin", "label", "training_share", "share", SUM((CASE WHEN "share" < '0.0001'::FLOAT THEN '0.0001'::FLOAT ELSE "share" END - CASE WHEN "training_share" < '0.0001'::FLOAT THEN '0.0001'::FLOAT ELSE "training_share" END) * LN((CASE WHEN "share" < '0.0001'::FLOAT THEN '0.0001'::FLOAT ELSE "share" END) / (CASE WHEN "training_share" < '0.0001'::FLOAT THEN '0.0001'::FLOAT ELSE "training_share" END))) OVER (PARTITION BY "feature_number") AS "psi"
FROM stage_2
ORDER BY "psi" DESC, "feature_number" ASC, "bin" ASC;
