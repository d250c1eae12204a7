-- A job is not trusted if it missed a canary, if the counts of its canaries cannot be, or if it owes canaries.
--
-- Every canary counts that the job has put in, whether or not the plan has the case and its result is accepted. The job
-- owes canaries, in an accepted result, for every cell and dtype whose cases passed by a comparison. It owes none
-- where one of these cases ended in another way: that one may have carried them, and the cell is not green already.
-- A test of a suite owes them by itself (see the step on proof).
--
-- A stale result is of another plan, whose carriers nobody knows: its job owes one canary at all, in any result.
--
-- A job that has not ended owes nothing yet: what it has compared waits for the case that carries the canaries, as if
-- it had not come.
CREATE OR REPLACE TEMP VIEW carriers AS
SELECT job, record, missed, coalesce(injected, 0) AS injected, coalesce(caught, 0) AS caught
FROM cases SEMI JOIN (FROM sources WHERE position IS NOT NULL) USING (source)
WHERE (injected IS NOT NULL OR caught IS NOT NULL OR missed IS NOT NULL)
  AND NOT starts_with("case", 'probe/') AND NOT starts_with("case", 'bench:');

CREATE OR REPLACE TEMP TABLE groups_that_owe AS
SELECT job, cell, dtype, any_value(operator) AS operator, any_value(target) AS target, min(planned) AS first
FROM accepted JOIN plan_cells USING (cell)
WHERE NOT ends_with(operator, '.tests')
  AND NOT (stale > 0 AND job IN (SELECT job FROM carriers WHERE injected > 0))
GROUP BY job, cell, dtype
HAVING bool_or(outcome = 'pass' AND action IN ('run', 'emulate')) AND bool_and(outcome IN ('pass', 'excluded'))
   AND NOT bool_or(coalesce(injected, 0) > 0);

CREATE OR REPLACE TEMP VIEW jobs_that_go_on AS
SELECT job FROM jobs JOIN sources USING (source) WHERE path = 'journals of jobs that have not ended';

CREATE OR REPLACE TEMP TABLE waiting AS
SELECT record FROM accepted a JOIN groups_that_owe g
    ON g.job = a.job AND g.cell = a.cell AND g.dtype IS NOT DISTINCT FROM a.dtype
WHERE action IN ('run', 'emulate') AND a.job IN (FROM jobs_that_go_on);
DELETE FROM results WHERE record IN (FROM waiting);
DELETE FROM outputs WHERE record IN (FROM waiting);
DELETE FROM cases WHERE record IN (FROM waiting);

CREATE OR REPLACE TEMP TABLE faulty_jobs AS
WITH counted AS (
    SELECT job, sum(injected) AS injected, sum(caught) AS caught,
           bool_and(isfinite(injected) AND injected = trunc(injected) AND caught = trunc(caught)
                    AND caught BETWEEN 0 AND injected) AS possible,
           coalesce(list(missed ORDER BY record) FILTER (missed <> ''), []) AS missed
    FROM carriers GROUP BY job
),
said AS (  -- by the job itself, as text
    SELECT job, facts['canary.injected'] AS injected, facts['canary.caught'] AS caught
    FROM jobs SEMI JOIN counted USING (job)
    WHERE facts['canary.injected'] IS NOT NULL OR facts['canary.caught'] IS NOT NULL
),
told AS (  -- the same as numbers; -1 and -1 if one of the texts is none
    SELECT job, CASE WHEN known THEN CAST(trim(injected) AS BIGINT) ELSE -1 END AS injected,
           CASE WHEN known THEN CAST(trim(caught) AS BIGINT) ELSE -1 END AS caught
    FROM (
        SELECT *, coalesce(
            regexp_full_match(injected || '/' || caught, '\s*[+-]?[0-9]{1,18}\s*/\s*[+-]?[0-9]{1,18}\s*'), false
        ) AS known
        FROM said
    )
),
owing AS (
    SELECT job, arg_min([operator, coalesce(dtype, ''), target], first) AS named, count(*) - 1 AS others
    FROM groups_that_owe WHERE job NOT IN (FROM jobs_that_go_on) GROUP BY job
),
faults AS (
    SELECT job, CASE
        WHEN NOT c.possible THEN because('canaries_impossible', [])
        WHEN c.caught < c.injected
            THEN because('canaries_missed', [(c.injected - c.caught)::VARCHAR, c.injected::VARCHAR] || c.missed)
        WHEN t.injected <> c.injected OR t.caught <> c.caught
            THEN because('canaries_told', [t.caught::VARCHAR, t.injected::VARCHAR, c.caught::VARCHAR,
                                           c.injected::VARCHAR])
        WHEN o.job IS NOT NULL THEN because('canaries_owed', o.named || [o.others::VARCHAR])
        END AS fault
    FROM counted c FULL JOIN owing o USING (job) LEFT JOIN told t USING (job)
)
SELECT job, fault FROM faults WHERE fault IS NOT NULL;
