-- A case is told where no machine of the project ran or emulated it, and no machine was planned to: the person's result
-- hides nothing red, and is no pass. It must have had the inputs of the project's own results, where these name any.
UPDATE answers SET state = 'told', evidence = 'told', reason = t.reason, stale = t.stale, record = t.record
FROM told_results t LEFT JOIN common_inputs c USING (key)
WHERE t.planned = answers.planned AND t.passed AND (c.digest IS NULL OR coalesce(t.digest, '') IN ('', c.digest))
  AND (
      answers.state IN ('unavailable', 'lowered', 'compiled')
      OR (answers.state = 'missing' AND answers.record IS NULL)
  );

INSERT INTO stale_reasons SELECT DISTINCT stale, stale_reason FROM told_results;
