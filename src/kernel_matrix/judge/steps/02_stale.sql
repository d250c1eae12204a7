-- A result is stale if its job is stale for the toolchain on the platform of its case, and if the case was tried at
-- all.
--
-- Nobody asks for the versions of an environment that could not be made, or in which no case was begun.
--
-- `stale_jobs` has the numbers of the reasons, with versions and without. `stale` is that number here, and 0 for a
-- result that is not stale.
CREATE OR REPLACE TEMP TABLE stale_cells AS
SELECT job, cell, reason, without_versions FROM stale_jobs JOIN plan_cells USING (platform, toolchain) WHERE reason > 0;

CREATE OR REPLACE TEMP VIEW dated AS
SELECT
    r.*,
    CASE
        WHEN has_no_environment THEN coalesce(s.without_versions, 0)
        WHEN outcome IN ('pass', 'fail', 'error') THEN coalesce(s.reason, 0)
        ELSE 0
    END AS stale
FROM results r LEFT JOIN stale_cells s USING (job, cell);
