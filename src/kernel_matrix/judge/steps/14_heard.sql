-- A person's word stands where no machine of the project has run or emulated the case, and none was to do so: it hides
-- nothing red, and it is no pass. It must have had the inputs of the project's own results, where these name any.
--
-- Its figures are those of the case alone: they count in no sum of a cell.
CREATE OR REPLACE TEMP TABLE heard AS
SELECT w.planned, w.record, w.stale, w.arguments, s.sentence
FROM words w JOIN told_sentences s USING (arguments) JOIN verdicts v USING (planned)
LEFT JOIN common_inputs c USING (key)
WHERE (v.state IN ('unavailable', 'lowered', 'compiled') OR (v.state = 'missing' AND v.record IS NULL))
  AND (coalesce(w.digest, '') = '' OR c.digest IS NULL OR c.digest = w.digest);

UPDATE verdicts SET state = 'told', evidence = 'told', code = 'told', arguments = h.arguments, reason = h.sentence,
       stale = h.stale, record = h.record
FROM heard h WHERE verdicts.planned = h.planned;
DELETE FROM taken WHERE planned IN (SELECT planned FROM heard);
