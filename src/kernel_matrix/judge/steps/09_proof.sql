-- That a result says "pass" is not enough: it must hold figures or an artifact, and nothing may speak against it.
--
-- `reached` is what the deciding result proves: an artifact of a compilation (lowered if it is a source), or that its
-- kernel ran. A test of a suite that compares no numbers is held. `doubt` is the first reason why the result proves
-- less than it says; null if there is none.
CREATE OR REPLACE TEMP TABLE proof AS
WITH totals AS (
    SELECT ordinal, sum(elements) AS elements, bool_or(says_how) AS says_how, count(*) FILTER (is_owed) AS owed_outputs,
           coalesce(len(list_distinct(list(variant) FILTER (variant <> ''))), 0) + 1 AS variants,
           min(place) FILTER (fault IS NOT NULL) AS first_fault, min(place) FILTER (odd IS NOT NULL) AS first_odd
    FROM checked_outputs GROUP BY ordinal
),
asserted AS (  -- the results of a suite's own tests, and whether they compared numbers
    SELECT ordinal, elements IS NOT NULL OR record IN (SELECT record FROM outputs) AS has_numbers
    FROM deciding WHERE owed IN (SELECT owed FROM plan_owed WHERE asserted)
),
known AS (
    SELECT d.planned, d.ordinal, d.record, d.job, d.cell, d.owed, d.outcome, d.action, d.elements, d.kind,
           d.action IN ('run', 'emulate') AS ran,
           coalesce(d.kind, '') <> '' AND coalesce(d.bytes, 0) <> 0 AS has_artifact,
           a.ordinal IS NOT NULL AS asserts, a.ordinal IS NOT NULL AND NOT a.has_numbers AS only_asserts,
           coalesce(d.injected, 0) <> 0 AS has_canaries, t.ordinal IS NOT NULL AS has_outputs, t.says_how,
           t.elements AS of_outputs, len(w.names) * coalesce(t.variants, 1) - coalesce(t.owed_outputs, 0) AS absent,
           t.first_fault, t.first_odd, e.stage AS stopped_in, e.message AS complaint
    FROM deciding d
    LEFT JOIN (SELECT record, stage, message FROM cases WHERE outcome = 'pass' AND (stage <> '' OR message <> '')) e
        USING (record)
    LEFT JOIN asserted a USING (ordinal)
    LEFT JOIN totals t USING (ordinal)
    LEFT JOIN plan_owed w ON w.owed = d.owed
    WHERE d.outcome IN ('pass', 'fail')
),
doubted AS (
    SELECT k.*, CASE
        WHEN stopped_in <> '' THEN 'stopped'
        WHEN complaint <> '' THEN 'complains'
        WHEN k.action = 'compile'
            THEN CASE WHEN NOT has_artifact THEN 'no_artifact' WHEN m.fault IS NOT NULL THEN 'place' END
        WHEN k.outcome = 'fail' THEN CASE WHEN NOT ran THEN 'failed_and_nothing_ran' END
        WHEN NOT ran THEN 'compared_nothing'
        WHEN only_asserts THEN CASE WHEN m.fault IS NOT NULL THEN 'place' WHEN j.fault IS NOT NULL THEN 'job' END
        WHEN coalesce(k.elements, 0) = 0 THEN 'compared_nothing'
        WHEN has_outputs AND NOT says_how THEN 'earlier_version'
        WHEN absent > 0 OR NOT has_outputs THEN 'owes_outputs'
        WHEN first_fault IS NOT NULL THEN 'output'
        WHEN asserts AND NOT has_canaries THEN 'no_canary'
        WHEN k.elements <> of_outputs THEN 'other_elements'
        WHEN m.fault IS NOT NULL THEN 'place'
        WHEN first_odd IS NOT NULL THEN 'odd'
        WHEN l.names IS NOT NULL THEN 'lacks'
        WHEN s.fault IS NOT NULL THEN 'samples'
        WHEN j.fault IS NOT NULL THEN 'job' END AS doubt
    FROM known k
    LEFT JOIN misplaced m ON m.job = k.job AND m.cell = k.cell AND m.action = k.action
    LEFT JOIN faulty_jobs j ON j.job = k.job
    LEFT JOIN wrong_samples s ON s.record = k.record
    LEFT JOIN lacking l ON l.record = k.record
),
absent_outputs AS (  -- of the results that lack some: every output that is owed by every variant, less those that came
    SELECT ordinal, list(name || variant ORDER BY variant, place) AS names
    FROM (
        SELECT ordinal, variant, unnest(names) AS name, generate_subscripts(names, 1) AS place
        FROM (
            SELECT ordinal, owed, '' AS variant FROM doubted WHERE doubt = 'owes_outputs'
            UNION
            SELECT ordinal, owed, variant FROM checked_outputs JOIN doubted USING (ordinal) WHERE doubt = 'owes_outputs'
        ) JOIN plan_owed USING (owed)
    ) ANTI JOIN checked_outputs USING (ordinal, name, variant)
    GROUP BY ordinal
),
reasons AS (  -- few results are doubted, and only of these the arguments are asked for
    SELECT d.planned, CASE d.doubt
        WHEN 'stopped' THEN because('stopped', [stopped_in])
        WHEN 'complains' THEN because('complains', [complaint])
        WHEN 'owes_outputs' THEN because('owes_outputs', coalesce(n.names, []))
        WHEN 'other_elements' THEN because('other_elements', [d.elements::VARCHAR, of_outputs::VARCHAR])
        WHEN 'output' THEN f.fault
        WHEN 'odd' THEN o.odd
        WHEN 'place' THEN m.fault
        WHEN 'lacks' THEN because('lacks', l.names)
        WHEN 'samples' THEN s.fault
        WHEN 'job' THEN j.fault
        ELSE because(d.doubt, []) END AS reason
    FROM doubted d
    LEFT JOIN absent_outputs n USING (ordinal)
    LEFT JOIN (SELECT ordinal, place, fault FROM checked_outputs WHERE fault IS NOT NULL) f
        ON f.ordinal = d.ordinal AND f.place = d.first_fault
    LEFT JOIN (SELECT ordinal, place, odd FROM checked_outputs WHERE odd IS NOT NULL) o
        ON o.ordinal = d.ordinal AND o.place = d.first_odd
    LEFT JOIN misplaced m ON m.job = d.job AND m.cell = d.cell AND m.action = d.action
    LEFT JOIN faulty_jobs j ON j.job = d.job
    LEFT JOIN wrong_samples s ON s.record = d.record
    LEFT JOIN lacking l ON l.record = d.record
    WHERE d.doubt IS NOT NULL
)
SELECT d.planned,
    CASE
        WHEN d.action = 'compile' AND NOT has_artifact THEN 'planned'
        WHEN d.action = 'compile' THEN CASE WHEN ends_with(d.kind, '-source') THEN 'lowered' ELSE 'compiled' END
        WHEN NOT ran THEN 'planned'
        WHEN only_asserts THEN 'held'
        WHEN d.action = 'emulate' THEN 'emulated'
        ELSE 'ran' END AS reached,
    r.reason AS doubt
FROM doubted d LEFT JOIN reasons r USING (planned);

-- What is to be said of the code of cases: nothing, where matrix.yaml has no limit of what code needs.
CREATE OR REPLACE TEMP TABLE resources (
    planned INTEGER, over STRUCT(code VARCHAR, arguments VARCHAR[]), owes STRUCT(code VARCHAR, arguments VARCHAR[])
);
