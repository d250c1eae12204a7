-- A result is refused if it had other inputs than most results of the same operator, direction and name of a case.
--
-- Where some of these results are not stale, only those are counted. Where two digests are equally frequent, no result
-- that names its inputs is accepted. A result that names no inputs is never refused; it may owe them, as the step on
-- common figures has it.
CREATE OR REPLACE TEMP TABLE common_inputs AS
WITH votes AS (
    SELECT key, digest, count(*) FILTER (stale = 0) AS current, count(*) AS all_votes
    FROM dated WHERE digest <> '' GROUP BY key, digest
),
counted AS (
    SELECT key, digest, CASE WHEN max(current) OVER (PARTITION BY key) > 0 THEN current ELSE all_votes END AS n
    FROM votes
),
best AS (SELECT key, max(n) AS n FROM counted GROUP BY key)
SELECT key, CASE WHEN count(*) > 1 THEN '' ELSE any_value(digest) END AS digest
FROM counted JOIN best USING (key, n) GROUP BY key;

CREATE OR REPLACE TEMP TABLE refused AS
SELECT planned, record, ordinal, d.digest, c.digest AS common FROM dated d JOIN common_inputs c USING (key)
WHERE d.digest <> '' AND d.digest <> c.digest;

CREATE OR REPLACE TEMP VIEW accepted AS
SELECT * FROM dated ANTI JOIN refused USING (record);
