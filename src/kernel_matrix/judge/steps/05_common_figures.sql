-- The golden and the baseline are computed on the CPU of every machine from the same inputs, so their figures hardly
-- differ: the usual figures of an output are the medians over all accepted results that ran.
--
-- There are medians for each name of a case, output, and whether the results are stale. Fewer than three results have
-- none: two that differ do not say which of them is wrong. Figures that are no numbers do not count. Of the variants of
-- one result the one that was chosen counts, else the first. Tests of a suite that do not say which inputs they had are
-- not compared with one another.
CREATE OR REPLACE TEMP VIEW ran_outputs AS
SELECT a.key, a.stale > 0 AS is_stale, a.ordinal, o.place, split_part(o.output, '@', 1) AS name,
       substring(o.output, length(split_part(o.output, '@', 1)) + 1) AS variant, o.elements, o.floor_max_abs,
       o.floor_rel_fro, o.conditioning_max_abs, o.conditioning_rel_fro, o.unit, o.steps, o.largest, o.itemsize,
       o.floor_misrounded
FROM accepted a JOIN outputs o USING (record)
WHERE a.action IN ('run', 'emulate')
  AND NOT (a.owed IN (SELECT owed FROM plan_owed WHERE asserted) AND a.digest IS NULL);

-- `rank` is least in the variant of a result that was chosen, else in the first.
CREATE OR REPLACE TEMP TABLE common_sources AS
SELECT key, name, is_stale, coalesce(elements, 0) AS elements, floor_max_abs, floor_rel_fro, conditioning_max_abs,
       conditioning_rel_fro, unit, steps, largest, itemsize, coalesce(floor_misrounded, 0) AS floor_misrounded, ordinal,
       variant,
       CASE WHEN variant = '' THEN -1 ELSE place END AS rank
FROM ran_outputs
WHERE isfinite(floor_max_abs) AND isfinite(floor_rel_fro) AND isfinite(conditioning_max_abs)
  AND isfinite(conditioning_rel_fro) AND isfinite(unit) AND isfinite(steps) AND isfinite(largest)
  AND isfinite(itemsize) AND isfinite(coalesce(elements, 0)) AND isfinite(coalesce(floor_misrounded, 0));

-- One variant of each result. Few results have several.
DELETE FROM common_sources WHERE rowid IN (
    SELECT rowid FROM common_sources SEMI JOIN (FROM common_sources WHERE variant <> '') USING (ordinal)
    QUALIFY row_number() OVER (PARTITION BY ordinal, name ORDER BY rank) > 1
);

-- Most results of a case have equal figures, so few are sorted.
CREATE OR REPLACE TEMP TABLE common_figures AS
WITH bounds AS (
    SELECT key, name, is_stale,
           min(elements) AS elements, min(floor_max_abs) AS floor_max_abs, min(floor_rel_fro) AS floor_rel_fro,
           min(conditioning_max_abs) AS conditioning_max_abs, min(conditioning_rel_fro) AS conditioning_rel_fro,
           min(unit) AS unit, min(steps) AS steps, min(largest) AS largest, min(itemsize) AS itemsize,
           min(floor_misrounded) AS floor_misrounded,
           min(elements) = max(elements) AND min(floor_max_abs) = max(floor_max_abs) AND
           min(floor_rel_fro) = max(floor_rel_fro) AND min(conditioning_max_abs) = max(conditioning_max_abs) AND
           min(conditioning_rel_fro) = max(conditioning_rel_fro) AND min(unit) = max(unit) AND
           min(steps) = max(steps) AND
           min(largest) = max(largest) AND min(itemsize) = max(itemsize) AND
           min(floor_misrounded) = max(floor_misrounded) AS equal
    FROM common_sources GROUP BY key, name, is_stale HAVING count(*) >= 3
),
ordered AS (
    SELECT key, name, is_stale, count(*) AS n,
           list_sort(list(elements)) AS elements, list_sort(list(floor_max_abs)) AS floor_max_abs,
           list_sort(list(floor_rel_fro)) AS floor_rel_fro,
           list_sort(list(conditioning_max_abs)) AS conditioning_max_abs,
           list_sort(list(conditioning_rel_fro)) AS conditioning_rel_fro, list_sort(list(unit)) AS unit,
           list_sort(list(steps)) AS steps, list_sort(list(largest)) AS largest,
           list_sort(list(itemsize)) AS itemsize, list_sort(list(floor_misrounded)) AS floor_misrounded
    FROM common_sources SEMI JOIN (FROM bounds WHERE NOT equal) USING (key, name, is_stale) GROUP BY ALL
)
SELECT * EXCLUDE (equal) FROM bounds WHERE equal
UNION ALL
SELECT key, name, is_stale,
       median_of(elements, n) AS elements, median_of(floor_max_abs, n) AS floor_max_abs,
       median_of(floor_rel_fro, n) AS floor_rel_fro, median_of(conditioning_max_abs, n) AS conditioning_max_abs,
       median_of(conditioning_rel_fro, n) AS conditioning_rel_fro, median_of(unit, n) AS unit,
       median_of(steps, n) AS steps, median_of(largest, n) AS largest, median_of(itemsize, n) AS itemsize,
       median_of(floor_misrounded, n) AS floor_misrounded
FROM ordered;

-- A result that passes owes what at least half of the others of its case have that pass: the digest of its inputs, the
-- process of its kernel, the growth of each error, and repeats. A suite may repeat only what runs, or only what is
-- emulated, so these are counted apart. What a suite's test says of itself depends on the test alone, and is not
-- counted.
CREATE OR REPLACE TEMP TABLE lacking AS
WITH passing AS (
    SELECT record, key, stale > 0 AS is_stale, a.action, coalesce(digest, '') <> '' AS has_inputs,
           coalesce(facts['process'], '') <> '' AS has_process, figures['repeats'] IS NOT NULL AS has_repeats
    FROM accepted a JOIN (SELECT record, facts, figures FROM cases) USING (record)
    WHERE a.outcome = 'pass' AND a.action IN ('run', 'emulate')
      AND owed NOT IN (SELECT owed FROM plan_owed WHERE asserted)
),
of_cases AS (
    SELECT key, is_stale, action, count(*) AS n, count(*) FILTER (has_inputs) AS with_inputs,
           count(*) FILTER (has_process) AS with_process, count(*) FILTER (has_repeats) AS with_repeats
    FROM passing GROUP BY ALL
),
grown AS (  -- the outputs of the cases whose growth some result measures: they are few
    SELECT record, key, is_stale, split_part(output, '@', 1) || '.growth' AS name, growth
    FROM passing JOIN outputs USING (record)
    WHERE key IN (SELECT key FROM passing JOIN outputs USING (record) WHERE growth IS NOT NULL)
),
counted AS (
    SELECT key, is_stale, '' AS action, 'inputs.sha256' AS name, sum(n) AS n, sum(with_inputs) AS has
    FROM of_cases GROUP BY key, is_stale
    UNION ALL SELECT key, is_stale, '', 'process', sum(n), sum(with_process) FROM of_cases GROUP BY key, is_stale
    UNION ALL SELECT key, is_stale, action, 'repeats', n, with_repeats FROM of_cases
    UNION ALL SELECT key, is_stale, '', name, count(*), count(growth) FROM grown GROUP BY key, is_stale, name
),
usual AS (
    SELECT key, is_stale, action, name FROM counted WHERE has > 0 AND has < n AND 2 * has >= n - 1
)
SELECT record, list_sort(list(DISTINCT name)) AS names
FROM (
    SELECT record, name
    FROM passing p JOIN usual u ON u.key = p.key AND u.is_stale = p.is_stale AND u.action IN ('', p.action)
    WHERE CASE name WHEN 'inputs.sha256' THEN NOT has_inputs WHEN 'process' THEN NOT has_process
                    WHEN 'repeats' THEN NOT has_repeats END
    UNION ALL
    SELECT record, name FROM grown JOIN usual USING (key, is_stale, name) WHERE growth IS NULL
)
GROUP BY record;
