-- What persons outside the project say, after the steps before this one have judged their results alone: a case counts
-- if it ran, passed at once, and nothing of the result speaks against it.
CREATE OR REPLACE TEMP TABLE words AS
SELECT v.planned, v.record, v.stale, d.key, d.digest,
       [coalesce(j.facts[name], '') FOR name IN ['told.by', 'told.key', 'told.at', 'device', 'commit']] AS arguments
FROM verdicts v JOIN deciding d USING (planned) JOIN jobs j USING (job)
WHERE v.state IN ('pass', 'held') AND v.evidence IN ('ran', 'held');

CREATE OR REPLACE TEMP TABLE told_states AS
SELECT v.planned, v.state, j.facts AS job FROM verdicts v JOIN cases c USING (record) JOIN jobs j USING (job);
