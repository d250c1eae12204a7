-- What persons outside the project say, whose results were judged alone: a case counts if it ran and passed at once.
CREATE OR REPLACE TEMP TABLE words AS
SELECT planned, record, d.key, d.digest, v.state, v.state IN ('pass', 'held') AND v.evidence IN ('ran', 'held') AS passed,
       d.stale + 1048576 AS stale, v.stale AS stale_reason, j.facts AS job,  -- the project's reasons have smaller numbers
       because('told', [coalesce(j.facts[name], '') FOR name IN ['told.by', 'told.key', 'told.at', 'device', 'commit']])
           AS reason
FROM verdicts v JOIN deciding d USING (planned, record) JOIN jobs j USING (job);
