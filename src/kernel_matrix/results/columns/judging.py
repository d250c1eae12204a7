"""The rules by which results become verdicts, as SQL over all results at once.

The rules are those of :mod:`kernel_matrix.results.compare`. SQL decides every case whose state follows from its columns
alone: no result, excluded, a result that compiled, a result that ran and whose figures are in order, a result that says
that it did not go well. Wherever SQL cannot prove that a result is in order, or matrix.yaml expects its case to fail,
the functions of that module decide (:mod:`kernel_matrix.results.columns.doubtful`). So a rule here may doubt a good
result, which only costs time, and must never take a bad one.

Each function makes one table, named in its docstring, from those before it.
"""

from __future__ import annotations

from kernel_matrix.results.columns.records import OF_CASES
from kernel_matrix.results.columns.sql import Connection, temporary, view

RAN = "action IN ('run', 'emulate')"


def number_results(connection: Connection) -> None:
    """Make ``results``: the present records of planned cases, with the numbers that judging needs of each.

    ``ordinal`` is the order of the records, by the position of their file. ``tried`` and ``badness`` say what was done
    and how it ended; the record with the largest of both decides.
    """
    temporary(
        connection,
        "results",
        r"""
        SELECT planned, cells.cell, names.inputs AS key, names.owed, names.dtype, source, record, job, outcome, action,
               coalesce(c.inputs, '') AS digest,
               CASE action WHEN 'run' THEN 3 WHEN 'emulate' THEN 2 WHEN 'compile' THEN 1 ELSE 0 END AS tried,
               list_position(['excluded', 'missing', 'unavailable', 'pass', 'error', 'fail'], outcome) AS badness,
               c.kind, c.elements, c.bytes, c.injected,
               (position::BIGINT << 32) | (record & 4294967295) AS ordinal
        FROM cases c JOIN sources USING (source)
        -- No part of a cell's id has a slash.
        JOIN plan_cells cells ON cells.id = regexp_extract("case", '^[^/]*/[^/]*/[^/]*/[^/]*')
        JOIN plan_names names
          ON names.name = substring("case", length(cells.id) + 2) AND names.operator = cells.operator
        JOIN planned ON planned.cell = cells.cell AND planned.named = names.named
        WHERE position IS NOT NULL
        """,
    )


def say_which_are_stale(connection: Connection) -> None:
    """Make ``dated``: the results, each with the number of the reason why it is stale; 0 for none.

    ``stale_jobs`` has the reasons by job, platform and toolchain. Only a case that was tried is measured at all.
    """
    question = "SELECT job, cell, reason FROM stale_jobs JOIN plan_cells USING (platform, toolchain) WHERE reason > 0"
    temporary(connection, "stale_cells", question)
    view(
        connection,
        "dated",
        """
        SELECT r.*, CASE WHEN outcome IN ('pass', 'fail', 'error') THEN coalesce(s.reason, 0) ELSE 0 END AS stale
        FROM results r LEFT JOIN stale_cells s USING (job, cell)
        """,
    )


def find_common_inputs(connection: Connection) -> None:
    """Make ``common_inputs``: the digest that most records of a name have; empty where two are equally frequent.

    Where some of the records are not stale, only these are counted.
    """
    temporary(
        connection,
        "common_inputs",
        """
        WITH votes AS (
            SELECT key, digest, count(*) FILTER (stale = 0) AS current, count(*) AS all_votes
            FROM dated WHERE digest <> '' GROUP BY key, digest
        ),
        counted AS (
            SELECT key, digest, CASE WHEN max(current) OVER (PARTITION BY key) > 0 THEN current ELSE all_votes END AS n
            FROM votes
        ),
        best AS (SELECT key, max(n) AS n FROM counted GROUP BY key)
        SELECT key, CASE WHEN count(*) > 1 THEN '' ELSE any_value(digest) END AS digest
        FROM counted JOIN best USING (key, n) GROUP BY key
        """,
    )


def refuse_other_inputs(connection: Connection) -> None:
    """Make ``refused``, the results that had other inputs than most, and ``accepted``, all others."""
    temporary(
        connection,
        "refused",
        """
        SELECT planned, record FROM dated d JOIN common_inputs c USING (key)
        WHERE d.digest <> '' AND d.digest <> c.digest
        """,
    )
    view(connection, "accepted", "SELECT * FROM dated ANTI JOIN refused USING (record)")


def find_faulty_jobs(connection: Connection) -> None:
    """Make ``doubtful_jobs``: jobs whose canaries were missed, are impossible, or are not there where they are owed.

    All canaries count that a job has put in, whether or not the case is planned and its result accepted. It owes them
    for every planned cell and dtype of which cases passed, unless one of these cases ended in another way.
    """
    temporary(
        connection,
        "doubtful_jobs",
        f"""
        WITH carriers AS (
            SELECT job, coalesce(injected, 0) AS injected, coalesce(caught, 0) AS caught
            FROM cases SEMI JOIN (FROM sources WHERE position IS NOT NULL) USING (source)
            WHERE (injected IS NOT NULL OR caught IS NOT NULL OR missed IS NOT NULL) AND {OF_CASES}
        ),
        counted AS (
            SELECT job, sum(injected) AS injected, sum(caught) AS caught, bool_and(coalesce(
                       caught BETWEEN 0 AND injected AND injected = TRY_CAST(injected AS INTEGER)
                       AND caught = TRY_CAST(caught AS INTEGER), false)) AS possible
            FROM carriers GROUP BY job
        )
        SELECT job FROM counted JOIN jobs USING (job)
        WHERE NOT possible OR caught <> injected
           -- What the job itself says must be the sum of what its cases say.
           OR (coalesce(facts['canary.injected'], facts['canary.caught']) IS NOT NULL
               AND (facts['canary.injected'], facts['canary.caught']) IS DISTINCT FROM
                   (TRY_CAST(injected AS BIGINT)::VARCHAR, TRY_CAST(caught AS BIGINT)::VARCHAR))
        UNION
        SELECT job FROM accepted WHERE outcome <> 'excluded' AND (outcome <> 'pass' OR {RAN})
        GROUP BY job, cell, dtype HAVING bool_and(outcome = 'pass') AND NOT coalesce(bool_or(injected > 0), false)
        """,
    )


def choose_deciding(connection: Connection) -> None:
    """Make ``deciding``: of each case the accepted result that tried most, and of equals the worst, then the first.

    A stale result decides only if it tried more than every result of the present, and the best of these did not go
    wrong.
    """
    temporary(
        connection,
        "deciding",
        """
        WITH weighed AS (  -- one number that is the larger the more the result counts
            SELECT planned, stale, ((tried * 8 + badness)::BIGINT << 48) | (281474976710655 - ordinal) AS weight
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
        SELECT a.planned, cell, key, owed, record, job, outcome, action, kind, elements, bytes, stale, ordinal
        FROM chosen c
        JOIN accepted a ON a.planned = c.planned AND a.ordinal = 281474976710655 - (c.weight & 281474976710655)
        """,
    )


def decide(connection: Connection) -> None:
    """Make ``decided``: planned case, state, evidence, reason, number of the stale reason, and the deciding record.

    ``certain`` is false where the functions of :mod:`kernel_matrix.results.compare` must decide. ``doubtful_outcomes``
    has the rules and jobs of which some expectation holds.
    """
    temporary(
        connection,
        "decided",
        _DECIDE,
    )


_LEVEL = "CASE WHEN ends_with(kind, '-source') THEN 'lowered' ELSE 'compiled' END"
_PASSED = "CASE WHEN expectation IS NOT NULL THEN 'fixed' WHEN len(attempts) > 0 THEN 'flaky'"
_TRIED_AGAIN = """CASE
    WHEN expectation IS NOT NULL
    THEN 'it passes, and is expected to fail: ' || expectation || ' Take the expectation out of matrix.yaml.'
    WHEN len(attempts) > 0 THEN 'passed after ' || array_to_string(attempts, ', ') ELSE '' END"""
_DECIDE = f"""
WITH tried_excluded AS (
    SELECT planned FROM results SEMI JOIN (SELECT planned FROM planned WHERE exclusion >= 0) USING (planned)
    WHERE outcome IN ('pass', 'fail', 'error')
),
judged AS (
    SELECT p.planned, p.exclusion, p.planned IN (FROM tried_excluded) AS was_tried,
           d.record IS NOT NULL OR p.planned IN (SELECT planned FROM refused) AS has_records, d.record,
           d.outcome, d.action, d.stale, d.kind, d.bytes, c.message, c.attempts,
           d.ordinal IN (FROM proven) AS is_proven,
           d.job IN (SELECT job FROM faulty_jobs) AS faulty_job,
           h.job IS NOT NULL AS expected, h.reason AS expectation,
           (d.job, d.cell, d.action) IN (SELECT (job, cell, action) FROM misplaced) AS is_misplaced,
           coalesce(d.kind, '') <> '' AND coalesce(d.bytes, 0) <> 0 AS has_artifact,
           coalesce(w.asserted, false) AS asserted
    FROM planned p
    LEFT JOIN deciding d USING (planned)
    LEFT JOIN cases c USING (record)
    LEFT JOIN plan_owed w ON w.owed = d.owed
    LEFT JOIN holding_rules h ON h.rules = p.rules AND h.job = d.job
),
kinds AS (
    SELECT *, CASE
        WHEN exclusion >= 0 THEN CASE WHEN was_tried THEN 'doubtful' ELSE 'excluded' END
        WHEN NOT has_records THEN 'missing'
        WHEN record IS NULL OR outcome = 'excluded' THEN 'doubtful'
        WHEN outcome IN ('unavailable', 'missing') THEN 'no device'
        WHEN expected AND outcome <> 'pass' THEN 'doubtful'
        WHEN outcome = 'error' THEN 'error'
        WHEN asserted THEN 'doubtful'
        WHEN outcome = 'fail' THEN CASE WHEN {RAN} THEN 'fail' ELSE 'doubtful' END
        WHEN action = 'compile' AND has_artifact THEN 'compiled'
        WHEN {RAN} AND is_proven AND NOT is_misplaced AND NOT faulty_job THEN 'ran'
        ELSE 'doubtful' END AS judgement
    FROM judged
)
SELECT planned,
       CASE judgement
           WHEN 'no device' THEN outcome
           WHEN 'compiled' THEN {_PASSED} ELSE {_LEVEL} END
           WHEN 'ran' THEN {_PASSED} ELSE 'pass' END
           ELSE judgement END AS state,
       CASE WHEN judgement = 'compiled' THEN {_LEVEL}
           WHEN judgement IN ('ran', 'fail') THEN CASE action WHEN 'run' THEN 'ran' ELSE 'emulated' END
           ELSE 'planned' END AS evidence,
       CASE judgement
           WHEN 'missing' THEN 'no result came'
           WHEN 'excluded' THEN plan_exclusions.reason
           WHEN 'compiled' THEN {_TRIED_AGAIN}
           WHEN 'ran' THEN {_TRIED_AGAIN}
           ELSE message END AS reason,
       coalesce(stale, 0) AS stale, CASE WHEN judgement <> 'excluded' THEN record END AS record,
       judgement <> 'doubtful' AS certain
FROM kinds LEFT JOIN plan_exclusions USING (exclusion)
"""
