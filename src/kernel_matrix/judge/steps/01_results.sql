-- A result counts if its file is present and the plan has its case.
--
-- `ordinal` is the order of the results: by the position of their file, and by their place in it. `tried` says how much
-- was done, and `badness` how it ended.
CREATE OR REPLACE TEMP TABLE results AS
SELECT planned, cells.cell, names.inputs AS key, names.owed, names.dtype, record, job, outcome, action,
       c.inputs AS digest,
       CASE action WHEN 'run' THEN 3 WHEN 'emulate' THEN 2 WHEN 'compile' THEN 1 ELSE 0 END AS tried,
       list_position(['excluded', 'unavailable', 'missing', 'pass', 'error', 'fail'], outcome) AS badness,
       outcome = 'error' AND (stage = 'install' OR action = '') AS has_no_environment,
       c.kind, c.elements, c.bytes, c.injected,
       (position::BIGINT << 32) | (record & 4294967295) AS ordinal
FROM cases c
JOIN sources USING (source)
-- No part of a cell's id has a slash.
JOIN plan_cells cells ON cells.id = regexp_extract("case", '^[^/]*/[^/]*/[^/]*/[^/]*')
JOIN plan_names names
  ON names.name = substring("case", length(cells.id) + 2) AND names.operator = cells.operator
JOIN planned ON planned.cell = cells.cell AND planned.named = names.named
WHERE position IS NOT NULL;
