-- Of the accepted results of a case the one decides that tried most; of equals the worst, and then the first. An
-- emulation of the present that went wrong counts as much as a run, so that no pass hides it.
--
-- A stale result decides only if it tried more than every result of the present, and the worst of these did not go
-- wrong.
CREATE OR REPLACE TEMP TABLE deciding AS
WITH weighed AS (  -- one number that is the larger the more the result counts
    SELECT planned, stale, (((CASE WHEN stale = 0 AND action = 'emulate' AND outcome IN ('error', 'fail') THEN 3
                                   ELSE tried END) * 8 + badness)::BIGINT << 48) | (281474976710655 - ordinal) AS weight
    FROM accepted
),
best AS (
    SELECT planned, max(weight) FILTER (stale = 0) AS now, max(weight) FILTER (stale > 0) AS before
    FROM weighed GROUP BY planned
),
chosen AS (
    SELECT planned, CASE
        WHEN now IS NULL THEN before
        WHEN before IS NULL THEN now
        WHEN (now >> 48) % 8 IN (5, 6) THEN now  -- error, fail
        WHEN (now >> 51) >= (before >> 51) THEN now
        ELSE before END AS weight
    FROM best
)
SELECT a.planned, cell, key, owed, record, job, outcome, action, digest, kind, elements, bytes, injected, stale, ordinal
FROM chosen c
JOIN accepted a ON a.planned = c.planned AND a.ordinal = 281474976710655 - (c.weight & 281474976710655);

-- The worst result of each case that went wrong and is stale. It does not decide where a case passes, and is named
-- there.
CREATE OR REPLACE TEMP TABLE went_wrong_before AS
SELECT planned, arg_max(outcome, badness) AS outcome, arg_max(stale, badness) AS stale,
       arg_max(record, badness) AS record
FROM accepted WHERE stale > 0 AND outcome IN ('error', 'fail') GROUP BY planned;
