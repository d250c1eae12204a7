-- A limit is never taken from a record: it is made of the record's figures and matrix.yaml's `accuracy`, by the formula
-- of job/budget.py, which stands here a second time. tests/judge/test_budget.py compares the two.
--
-- The largest error may be min(cap, max(factor * noise, sqrt(steps) * conditioning)), where the noise is the largest of
-- the baseline's error (floor), the conditioning, and some steps of fp32 (ulps) at the golden's largest value. The
-- relative error has no cap, and `rounded` in the place of `factor` for an output that is narrower than fp32. A suite
-- that asserts by itself may declare the limits in its test; the cap holds for these too. In a dtype of one byte the
-- cap is at least half a step at the largest value: no result is nearer.
--
-- Of an output narrower than fp32 a share of the elements may be misrounded, or twice the baseline's share, if
-- matrix.yaml has that limit and the test declares none of its own.
CREATE OR REPLACE TEMP VIEW limits AS
WITH of_names AS (  -- what matrix.yaml says of an output by its name
    SELECT owed, name, bool_or(part = 'names') AS is_named, bool_or(part = 'sums') AS is_sum,
           any_value(factor) AS factor, any_value(rounded) AS rounded, any_value(cap) AS cap
    FROM (
        SELECT owed, unnest(names) AS name, 'names' AS part, NULL AS factor, NULL AS rounded, NULL AS cap
        FROM plan_owed
        UNION ALL SELECT owed, unnest(sums), 'sums', NULL, NULL, NULL FROM plan_owed
        UNION ALL SELECT owed, output, 'budget', factor, rounded, cap FROM plan_budgets
    ) GROUP BY owed, name
),
of_cases AS (
    SELECT * EXCLUDE (names, sums), len(names) = 0 AS any_name FROM plan_owed
),
found AS (
    SELECT d.ordinal, d.key, d.stale > 0 AS is_stale, o.place, o.output, split_part(o.output, '@', 1) AS name,
           substring(o.output, length(split_part(o.output, '@', 1)) + 1) AS variant,
           o.elements, o.nan, o.inf, o.max_abs, o.rel_fro, o.limit_max_abs, o.limit_rel_fro, o.floor_max_abs,
           o.floor_rel_fro, o.conditioning_max_abs, o.conditioning_rel_fro, o.unit, o.steps, o.largest, o.itemsize,
           coalesce(o.growth, 0) AS growth, w.asserted AND d.digest IS NULL AS draws_alone,
           coalesce(n.is_named, false) AS is_owed, w.any_name OR coalesce(n.is_named, false) AS is_named,
           coalesce(CASE WHEN n.is_sum THEN w.growth_of_sums ELSE w.growth_of_others END,
                    o.limit_growth, 0) AS most_growth,
           o.misrounded, o.floor_misrounded,
           CASE WHEN o.itemsize < 4 AND NOT (w.asserted AND o.others['declared_max_abs'] IS NOT NULL)
                THEN w.misrounded END AS share,
           coalesce(n.factor, w.factor) AS factor, coalesce(n.rounded, w.rounded) AS rounded, w.ulps,
           greatest(coalesce(n.cap, w.cap) * o.unit, CASE WHEN o.itemsize < 2 THEN o.largest / 8 ELSE 0 END)
           AS cap_of_unit,
           CASE WHEN w.asserted THEN o.others['declared_max_abs'] END AS declared_max_abs,
           CASE WHEN w.asserted THEN o.others['declared_rel_fro'] END AS declared_rel_fro
    FROM deciding d JOIN outputs o USING (record)
    JOIN of_cases w ON w.owed = d.owed
    LEFT JOIN of_names n ON n.owed = d.owed AND n.name = split_part(o.output, '@', 1)
    WHERE d.outcome = 'pass' AND d.action IN ('run', 'emulate')
),
noise AS (
    SELECT *, greatest(floor_max_abs, conditioning_max_abs, ulps * spacing_at(largest)) AS noise_abs,
           greatest(floor_rel_fro, conditioning_rel_fro, ulps * epsilon()) AS noise_rel,
           elements * greatest(share, 2 * floor_misrounded) AS usual
    FROM found
)
SELECT * EXCLUDE (factor, rounded, cap_of_unit, declared_max_abs, declared_rel_fro, noise_abs, noise_rel, usual),
       CASE WHEN declared_max_abs IS NULL
            THEN least(cap_of_unit, greatest(factor * noise_abs, sqrt(steps) * conditioning_max_abs))
            WHEN isnan(declared_max_abs) THEN declared_max_abs
            ELSE least(cap_of_unit, declared_max_abs) END AS most_abs,
       CASE WHEN declared_max_abs IS NULL
            THEN greatest((CASE WHEN itemsize < 4 THEN rounded ELSE factor END) * noise_rel,
                          sqrt(steps) * conditioning_rel_fro)
            ELSE coalesce(declared_rel_fro, 0) END AS most_rel,
       -- Few elements can have many by luck: two, and four standard deviations of their number.
       CASE WHEN share > 0 THEN (usual + 4 * sqrt(usual) + 2) / elements END AS most_misrounded
FROM noise;
