-- Every verdict with the sentence of its reason, which judge/reasons.py has made, and the record that it names.
CREATE OR REPLACE TEMP TABLE verdicts AS
SELECT a.planned, a.state, a.evidence, a.reason.code AS code, a.reason.arguments AS arguments,
       CASE a.reason.code WHEN '' THEN '' WHEN 'says' THEN a.reason.arguments[1] ELSE t.sentence END AS reason,
       s.text AS stale, a.record
FROM answers a
JOIN stale_reasons s USING (stale)
LEFT JOIN sentences t ON t.code = a.reason.code AND t.arguments = a.reason.arguments;

CREATE OR REPLACE TEMP TABLE taken AS
SELECT v.planned, p.cell, v.state, c.record, c.job, c.outcome, c.action, c.seconds, c.kind, c.injected, c.caught
FROM verdicts v JOIN planned p USING (planned) JOIN cases c USING (record)
WHERE v.state <> 'told';  -- the figures that a person sent count for their case alone, and in no sum of a cell
