"""The rules by which results become verdicts, as SQL over all results at once.

The rules are those of :mod:`kernel_matrix.results.compare`. SQL decides every case whose state follows from its columns
alone: no result, excluded, a result that compiled, a result that ran and whose figures are in order, a result that says
that it did not go well. Wherever SQL cannot prove that a result is in order, or matrix.yaml expects its case to fail,
the functions of that module decide (:mod:`kernel_matrix.results.columns.doubtful`). So a rule here may doubt a good
result, which only costs time, and must never take a bad one.

Each function makes one table, named in its docstring, from those before it.
"""

from __future__ import annotations

from kernel_matrix.job.budget import EPSILON
from kernel_matrix.results.columns.sql import Connection, temporary, view
from kernel_matrix.results.common_figures import FEWEST, FLOOR
from kernel_matrix.results.limits import FIGURES, ROUNDING, SOURCES

_CAREFUL = 1 - 1e-6  # of a limit: figures nearer to it are left to the functions that compute it exactly
COMMON = ("elements", *SOURCES)  # the figures that all results of a case have in common
_RAN = "action IN ('run', 'emulate')"


def number_results(connection: Connection) -> None:
    """Make ``results``: the present records of planned cases, with the numbers that judging needs of each.

    ``ordinal`` is the order of the records, by the position of their file. ``tried`` and ``badness`` say what was done
    and how it ended; the record with the largest of both decides.
    """
    temporary(
        connection,
        "results",
        r"""
        SELECT planned, cells.cell, names.inputs AS key, names.owed, names.dtype,
               (position::BIGINT << 32) | (record & 4294967295) AS ordinal,
               record, job, outcome, action, coalesce(c.inputs, '') AS digest,
               CASE action WHEN 'run' THEN 3 WHEN 'emulate' THEN 2 WHEN 'compile' THEN 1 ELSE 0 END AS tried,
               list_position(['excluded', 'missing', 'unavailable', 'pass', 'error', 'fail'], outcome) AS badness,
               c.kind, c.missed, c.elements, c.bytes, c.injected, c.caught
        FROM cases c
        JOIN sources USING (source)
        -- No part of a cell's id has a slash.
        JOIN plan_cells cells ON cells.id = regexp_extract("case", '^[^/]*/[^/]*/[^/]*/[^/]*')
        JOIN plan_names names ON names.name = "case"[length(cells.id) + 2:] AND names.operator = cells.operator
        JOIN planned ON planned.cell = cells.cell AND planned.named = names.named
        WHERE position IS NOT NULL
        """,
    )


def say_which_are_stale(connection: Connection) -> None:
    """Make ``dated``: the results, each with the number of the reason why it is stale; 0 for none.

    ``stale_jobs`` has the reasons by job, platform and toolchain. Only a case that was tried is measured at all.
    """
    view(
        connection,
        "dated",
        """
        SELECT r.*, CASE WHEN outcome IN ('pass', 'fail', 'error') THEN coalesce(s.reason, 0) ELSE 0 END AS stale
        FROM results r
        JOIN plan_cells USING (cell)
        LEFT JOIN stale_jobs s ON s.job = r.job AND s.platform = plan_cells.platform
            AND s.toolchain = plan_cells.toolchain
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
    """Make ``accepted``: the results that had the inputs which most have, or that do not say which."""
    temporary(
        connection,
        "accepted",
        """
        SELECT d.* FROM dated d LEFT JOIN common_inputs c USING (key)
        WHERE d.digest = '' OR d.digest = c.digest
        """,
    )


def find_common_figures(connection: Connection) -> None:
    """Make ``ran_outputs``, the figures of the accepted results that ran, and ``common_figures``, their medians.

    The medians are by the name of the case, the output, and whether the results are stale. Of the variants of one
    result the one that was chosen counts, else the first. Fewer than three results have no median.
    """
    view(
        connection,
        "ran_outputs",
        f"""
        SELECT a.key, a.owed, a.stale > 0 AS is_stale, a.ordinal, o.place, split_part(o.output, '@', 1) AS name,
               o.output[length(split_part(o.output, '@', 1)) + 1:] AS variant,
               {", ".join(f"o.{name}" for name in FIGURES)}, o.growth, o.limit_growth
        FROM accepted a JOIN outputs o USING (record) WHERE a.{_RAN}
          -- Tests of a suite that do not say which inputs they had are not compared with one another.
          AND NOT (a.owed IN (SELECT owed FROM plan_owed WHERE asserted) AND a.digest = '')
        """,
    )
    temporary(connection, "common_sources", _SOURCES_OF_ONE_VARIANT)
    temporary(connection, "common_figures", _MEDIANS)


# The figures that have a median, of one variant of each result: of the rows with the same name the first by ``rank``.
_SOURCES_OF_ONE_VARIANT = f"""
    WITH named AS (
        SELECT key, name, is_stale, ordinal, coalesce(elements, 0) AS elements, {", ".join(SOURCES)}, place,
               CASE WHEN variant IN ('', '@') THEN -1 - place ELSE place END AS rank
        FROM ran_outputs WHERE {" AND ".join(f"isfinite({name})" for name in SOURCES)}
    ),
    chosen AS (SELECT ordinal, arg_min(place, rank) AS place FROM named GROUP BY ordinal, name)
    SELECT key, name, is_stale, {", ".join(COMMON)} FROM named SEMI JOIN chosen USING (ordinal, place)
"""
# Most results of a case have equal figures, so few are sorted.
_MEDIANS = f"""
    WITH bounds AS (
        SELECT key, name, is_stale, {", ".join(f"min({name}) AS {name}" for name in COMMON)},
               {" AND ".join(f"min({name}) = max({name})" for name in COMMON)} AS equal
        FROM common_sources GROUP BY key, name, is_stale HAVING count(*) >= {FEWEST}
    ),
    ordered AS (
        SELECT key, name, is_stale, count(*) AS n, {", ".join(f"list_sort(list({name})) AS {name}" for name in COMMON)}
        FROM common_sources SEMI JOIN (FROM bounds WHERE NOT equal) USING (key, name, is_stale) GROUP BY ALL
    )
    SELECT * EXCLUDE (equal) FROM bounds WHERE equal
    UNION ALL
    SELECT key, name, is_stale,
           {", ".join(f"({name}[(n + 1) // 2] + {name}[n // 2 + 1]) / 2 AS {name}" for name in COMMON)}
    FROM ordered
"""


def find_faulty_jobs(connection: Connection) -> None:
    """Make ``doubtful_jobs``: jobs whose canaries were missed, are impossible, or are not there where they are owed.

    A job owes canaries for every cell and dtype of which cases passed, unless one of these cases ended in another way.
    """
    temporary(
        connection,
        "doubtful_jobs",
        f"""
        WITH groups AS (
            SELECT job, cell, dtype,
                   bool_or(outcome = 'pass' AND {_RAN}) AND NOT bool_or(outcome NOT IN ('pass', 'excluded')) AS owes,
                   coalesce(bool_or(injected > 0), false) AS has,
                   bool_or(NOT coalesce(
                       coalesce(caught, 0) BETWEEN 0 AND coalesce(injected, 0) AND isfinite(coalesce(injected, 0))
                       AND coalesce(injected, 0) = floor(coalesce(injected, 0))
                       AND coalesce(caught, 0) = floor(coalesce(caught, 0)), false)) AS impossible,
                   coalesce(sum(injected), 0) AS injected, coalesce(sum(caught), 0) AS caught
            FROM accepted GROUP BY job, cell, dtype
        ),
        of_jobs AS (
            SELECT job, bool_or(owes AND NOT has) AS owing, bool_or(impossible) AS impossible,
                   sum(injected) AS injected, sum(caught) AS caught
            FROM groups GROUP BY job
        )
        SELECT job FROM of_jobs JOIN jobs USING (job)
        WHERE owing OR impossible OR caught <> injected
           -- What the job itself says must be the sum of what its cases say.
           OR coalesce(facts['canary.injected'], injected::BIGINT::VARCHAR) <> injected::BIGINT::VARCHAR
           OR coalesce(facts['canary.caught'], caught::BIGINT::VARCHAR) <> caught::BIGINT::VARCHAR
           OR (facts['canary.injected'] IS NULL) <> (facts['canary.caught'] IS NULL)
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
        SELECT a.* FROM chosen c
        JOIN accepted a ON a.planned = c.planned AND a.ordinal = 281474976710655 - (c.weight & 281474976710655)
        """,
    )


def prove_figures(connection: Connection) -> None:
    """Make ``proven``: the deciding results that ran, passed, and whose figures are surely in order.

    They have all figures of every owed output and of its variants, inside the limits that matrix.yaml makes of them and
    in line with the other results of the same case.
    """
    temporary(
        connection,
        "proven",
        _PROOF,
    )


def _spacing(largest: str) -> str:
    """Return the distance of two numbers of fp32 at a value."""
    return f"CASE WHEN {largest} > 0 THEN {EPSILON!r} * pow(2.0, floor(log2({largest}))) ELSE 0 END"


# The limits of each output, computed from its figures and matrix.yaml's `accuracy` as job/budget.py does it.
_LIMITS = f"""
    of_deciding AS (
        SELECT d.ordinal, d.key, d.stale > 0 AS is_stale, split_part(o.output, '@', 1) AS name,
               o.output[length(split_part(o.output, '@', 1)) + 1:] AS variant,
               {", ".join(f"o.{name}" for name in FIGURES)}, o.growth, o.limit_growth,
               w.names, w.sums, w.growth_of_sums, w.growth_of_others,
               coalesce(b.factor, w.factor) AS factor, coalesce(b.rounded, w.rounded) AS rounded, w.ulps,
               coalesce(b.cap, w.cap) * o.unit AS cap_of_unit
        FROM deciding d JOIN outputs o USING (record) JOIN plan_owed w ON w.owed = d.owed
        LEFT JOIN plan_budgets b ON b.owed = d.owed AND b.output = split_part(o.output, '@', 1)
        WHERE d.outcome = 'pass' AND d.{_RAN} AND NOT w.asserted  -- of a test of a suite the functions decide
    ),
    least AS (
        SELECT *, ulps * {_spacing("largest")} AS least_abs, ulps * {EPSILON!r} AS least_rel
        FROM of_deciding
    ),
    noise AS (
        SELECT *, greatest(floor_max_abs, conditioning_max_abs, least_abs) AS noise_abs,
               greatest(floor_rel_fro, conditioning_rel_fro, least_rel) AS noise_rel
        FROM least
    ),
    limits AS (
        SELECT n.*,
               least(cap_of_unit, greatest(factor * noise_abs, sqrt(n.steps) * n.conditioning_max_abs)) AS most_abs,
               greatest((CASE WHEN n.itemsize < 4 THEN rounded ELSE factor END) * noise_rel,
                        sqrt(n.steps) * n.conditioning_rel_fro) AS most_rel,
               c.key IS NOT NULL AS has_common, c.elements AS usual_elements,
               {", ".join(f"c.{name} AS usual_{name}" for name in SOURCES)}
        FROM noise n LEFT JOIN common_figures c USING (key, name, is_stale)
    )
"""


def _in_line() -> str:
    """Return the condition that the figures of an output are in line with those of the other results."""
    near = {"elements": 0.0, "steps": 0.0, "itemsize": 0.0, "unit": 1e-6, "largest": 1e-3}
    near |= {"conditioning_max_abs": 1e-3, "conditioning_rel_fro": 1e-3}
    conditions = [
        f"abs({name} - usual_{name}) <= {_CAREFUL * allowed!r} * abs(usual_{name})" for name, allowed in near.items()
    ]
    for kind, least in (
        ("max_abs", _spacing("usual_largest")),
        ("rel_fro", f"{EPSILON!r}"),
    ):
        usual = f"greatest(usual_floor_{kind}, usual_conditioning_{kind}, ulps * {least})"
        conditions.append(f"floor_{kind} <= {_CAREFUL * FLOOR} * {usual}")
    return f"(NOT has_common OR ({' AND '.join(conditions)}))"


def decide(connection: Connection) -> None:
    """Make ``verdicts``: planned case, state, evidence, reason, number of the stale reason, and the deciding record.

    ``certain`` is false where the functions of :mod:`kernel_matrix.results.compare` must decide. ``doubtful_outcomes``
    has the rules and jobs of which some expectation holds.
    """
    temporary(
        connection,
        "verdicts",
        _DECIDE,
    )


_LEVEL = "CASE WHEN ends_with(kind, '-source') THEN 'lowered' ELSE 'compiled' END"
_PASSED = "CASE WHEN expectation IS NOT NULL THEN 'fixed' WHEN len(attempts) > 0 THEN 'flaky'"
_TRIED_AGAIN = """CASE
    WHEN expectation IS NOT NULL
    THEN 'it passes, and is expected to fail: ' || expectation || ' Take the expectation out of matrix.yaml.'
    WHEN len(attempts) > 0 THEN 'passed after ' || array_to_string(attempts, ', ') ELSE '' END"""
_DECIDE = f"""
WITH judged AS (
    SELECT p.planned, p.exclusion, p.planned IN (SELECT planned FROM results) AS has_records, d.record,
           d.outcome, d.action, d.stale, d.kind, d.bytes, c.message, c.attempts,
           d.ordinal IN (FROM proven) AS is_proven,
           d.job IN (FROM faulty_jobs) AS faulty_job,
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
        WHEN exclusion >= 0 THEN CASE WHEN has_records THEN 'doubtful' ELSE 'excluded' END
        WHEN NOT has_records THEN 'missing'
        WHEN record IS NULL OR outcome = 'excluded' THEN 'doubtful'
        WHEN outcome IN ('unavailable', 'missing') THEN 'no device'
        WHEN expected AND outcome <> 'pass' THEN 'doubtful'
        WHEN outcome = 'error' THEN 'error'
        WHEN asserted THEN 'doubtful'
        WHEN outcome = 'fail' THEN CASE WHEN {_RAN} THEN 'fail' ELSE 'doubtful' END
        WHEN action = 'compile' AND has_artifact THEN 'compiled'
        WHEN {_RAN} AND is_proven AND NOT is_misplaced AND NOT faulty_job THEN 'ran'
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
       coalesce(stale, 0) AS stale, record, judgement <> 'doubtful' AS certain
FROM kinds LEFT JOIN plan_exclusions USING (exclusion)
"""
_ROOT = f"(sqrt(elements) * {1 + ROUNDING * _CAREFUL!r})"  # of one element, both are the same but for the rounding
_PRESENT = " AND ".join(f"isfinite(o.{name}) AND o.{name} >= 0" for name in FIGURES)
_PROOF = f"""
WITH {_LIMITS},
good AS (
    SELECT ordinal, coalesce(
        {_PRESENT}
        AND elements >= 1 AND elements = floor(elements) AND steps >= 1 AND steps = floor(steps)
        AND nan = 0 AND inf = 0 AND itemsize IN (1, 2, 4, 8) AND unit > 0
        -- The norm of n numbers is between the largest of them and the root of n times that.
        AND CASE WHEN max_abs > 0 AND rel_fro > 0 AND largest > 0
            THEN rel_fro BETWEEN max_abs / (largest * {_ROOT}) AND max_abs * {_ROOT} / largest
            ELSE largest = 0 OR (max_abs = 0) = (rel_fro = 0) END
        AND isfinite(most_abs) AND isfinite(most_rel)
        AND abs(limit_max_abs - most_abs) <= {_CAREFUL * 1e-9} * most_abs AND max_abs <= most_abs
        AND abs(limit_rel_fro - most_rel) <= {_CAREFUL * 1e-9} * most_rel AND rel_fro <= most_rel
        AND (max_abs = 0 OR max_abs < {_CAREFUL} * most_abs)
        AND (rel_fro = 0 OR rel_fro < {_CAREFUL} * most_rel)
        AND (largest = 0 OR most_rel < {_CAREFUL})
        AND isfinite(coalesce(growth, 0)) AND NOT isnan(coalesce(limit_growth, 0))
        AND coalesce(growth, 0) <= coalesce(
            CASE WHEN list_contains(sums, name) THEN growth_of_sums ELSE growth_of_others END, limit_growth, 0)
        AND (len(names) = 0 OR list_contains(names, name))
        AND {_in_line()}, false) AS good,
        elements, name, variant
    FROM limits o
),
of_results AS (
    SELECT ordinal, sum(elements) AS elements, count(*) AS outputs,
           coalesce(len(list_distinct(list(variant) FILTER (variant <> ''))), 0) + 1 AS variants
    FROM good GROUP BY ordinal HAVING bool_and(good)
)
SELECT ordinal FROM of_results r JOIN deciding d USING (ordinal) JOIN plan_owed USING (owed)
WHERE r.elements = d.elements
  -- Every output of every variant is there.
  AND (len(names) = 0 OR outputs = len(names) * variants)
"""
