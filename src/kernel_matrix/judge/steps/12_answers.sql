-- The state of every planned case.
--
-- An excluded case is excluded, and says how it ended if it was tried all the same. A case without a result is missing,
-- and so is a case whose results were all refused. What passes is an error if its proof is doubted, a fail if its code
-- needs more than a limit allows, an error if it owes what a limit is of, fixed if it is expected to fail, flaky if it
-- was tried before, and else a pass or the less that it proves. What fails is known if it is expected to.
CREATE OR REPLACE TEMP TABLE answers AS
WITH tried AS (  -- the worst result of each excluded case
    SELECT planned, arg_max(outcome, weight) AS outcome, arg_max(record, weight) AS record
    FROM (
        SELECT planned, outcome, record, (badness::BIGINT << 48) + (281474976710655 - ordinal) AS weight
        FROM results SEMI JOIN (FROM planned WHERE exclusion >= 0) USING (planned)
        WHERE outcome IN ('pass', 'fail', 'error')
    ) GROUP BY planned
),
other_inputs AS (  -- the first refused result of each case
    SELECT planned, arg_min(record, ordinal) AS record, arg_min(digest, ordinal) AS digest, any_value(common) AS common
    FROM refused GROUP BY planned
),
texts AS (  -- of few results: a join with all of a million takes more memory than there is
    SELECT record, message, attempts FROM cases WHERE message <> '' OR len(attempts) > 0
),
known AS (
    SELECT p.planned, p.exclusion, x.reason AS exclusion_reason, t.outcome AS tried,
           coalesce(tc.message, '') AS tried_message, d.record, d.outcome, d.stale, coalesce(c.message, '') AS message,
           coalesce(c.attempts, []) AS attempts, r.record AS first_refused, r.digest, r.common,
           b.outcome AS before, bs.text AS before_stale, coalesce(bc.message, '') AS before_message,
           f.reached, f.doubt, u.over, u.owes, e.pending, e.matching, coalesce(e.ended, []) AS ended
    FROM planned p
    LEFT JOIN plan_exclusions x USING (exclusion)
    LEFT JOIN tried t USING (planned)
    LEFT JOIN texts tc ON tc.record = t.record
    LEFT JOIN deciding d USING (planned)
    LEFT JOIN texts c ON c.record = d.record
    LEFT JOIN other_inputs r USING (planned)
    LEFT JOIN went_wrong_before b USING (planned)
    LEFT JOIN stale_reasons bs ON bs.stale = b.stale
    LEFT JOIN texts bc ON bc.record = b.record
    LEFT JOIN proof f USING (planned)
    LEFT JOIN resources u USING (planned)
    LEFT JOIN expected e USING (planned)
),
judged AS (
    SELECT *, CASE
        WHEN exclusion >= 0 THEN 'excluded'
        WHEN record IS NULL OR outcome IN ('excluded', 'missing') THEN 'missing'
        WHEN outcome = 'unavailable' THEN 'unavailable'
        WHEN outcome = 'pass' AND doubt IS NOT NULL THEN 'error'
        WHEN outcome = 'pass' AND over IS NOT NULL THEN 'fail'
        WHEN outcome = 'pass' AND owes IS NOT NULL THEN 'error'
        WHEN outcome = 'pass' AND pending IS NOT NULL THEN 'fixed'
        WHEN outcome = 'pass' AND len(attempts) > 0 THEN 'flaky'
        WHEN outcome = 'pass' AND reached IN ('lowered', 'compiled', 'held') THEN reached
        WHEN outcome = 'pass' THEN 'pass'
        WHEN matching IS NOT NULL THEN 'known'
        ELSE outcome END AS state
    FROM known
)
SELECT planned, state,
    CASE WHEN outcome = 'fail' OR state IN ('fail', 'fixed', 'flaky', 'lowered', 'compiled', 'held', 'pass')
         THEN CASE WHEN exclusion >= 0 THEN 'planned' ELSE reached END ELSE 'planned' END AS evidence,
    CASE
        WHEN exclusion >= 0 THEN CASE
            WHEN tried IS NULL THEN because('says', [exclusion_reason])
            WHEN tried = 'pass' THEN because('excluded_and_passes', [exclusion_reason])
            ELSE because('excluded_and_tried', [exclusion_reason, tried, tried_message]) END
        WHEN record IS NULL AND first_refused IS NULL THEN because('no_result', [])
        WHEN record IS NULL THEN because('other_inputs', [digest, common])
        WHEN outcome = 'excluded' THEN because('excluded_there', [])
        WHEN outcome IN ('missing', 'unavailable') THEN because('says', [message])
        WHEN state = 'error' AND outcome = 'pass' THEN coalesce(doubt, owes)
        WHEN state = 'fail' AND outcome = 'pass' THEN over
        WHEN state = 'fixed' THEN because('fixed', [pending])
        WHEN outcome = 'pass' AND before IS NOT NULL
            THEN because('went_wrong_before', [before, before_stale, before_message] || attempts)
        WHEN state = 'flaky' THEN because('flaky', attempts)
        WHEN outcome = 'pass' THEN because('', [])
        WHEN state = 'known' THEN because('says', [matching])
        WHEN doubt IS NULL AND len(ended) = 0 THEN because('says', [message])
        ELSE because('says_and', [message, coalesce(doubt.code, '')] || ended) END AS reason,
    CASE WHEN exclusion >= 0 OR record IS NULL THEN 0 ELSE stale END AS stale,
    CASE WHEN exclusion < 0 THEN coalesce(record, first_refused) END AS record
FROM judged;
