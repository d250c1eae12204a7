-- The results that persons outside the project have signed, judged alone: a case counts if it ran and passed at once.
CREATE OR REPLACE TEMP TABLE told_results AS
SELECT planned, record, d.key, d.digest, a.state,
       a.state IN ('pass', 'held') AND a.evidence IN ('ran', 'held') AS passed,
       d.stale + 1048576 AS stale, s.text AS stale_reason,  -- the project's reasons have smaller numbers
       j.facts AS job,
       because('told', [coalesce(j.facts[name], '') FOR name IN ['told.by', 'told.key', 'told.at', 'device', 'commit']])
           AS reason
FROM answers a
JOIN deciding d USING (planned, record)
JOIN jobs j USING (job)
JOIN stale_reasons s ON s.stale = a.stale;
