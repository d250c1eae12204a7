"""The views over the tables, as SQL for DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernel_matrix.config.model import ASSERTED
from kernel_matrix.store.names import TABLES
from kernel_matrix.store.occupancy import occupancy
from kernel_matrix.store.schema import LATER

# What the views are for, in the order in which they are made.
VIEWS: Mapping[str, str] = {
    "versions": "The version of each distribution in the environment of a job.",
    "states": "Each case with its cell, its job, and its outcome, from the best (1) to the worst (7).",
    "cells": "Each cell in each run: how its cases ended, the worst outcome, the largest noise, the least occupancy.",
    "times": "Each timed case in each run: the seconds of the kernel, of the baseline and of the floor, and the ratio.",
    "transitions": "Each cell whose outcome changed from one run of a job on a device to the next.",
    "coverage": "Each platform at each commit: how many operators work, only compile, are red or have no result there.",
    "gaps": "Each operator that works on a platform and not on another one, as each was measured last.",
}


_VERSIONS = """SELECT run, substr(entry.key, 9) AS distribution, entry.value AS version
FROM (SELECT run, unnest(map_entries(facts)) AS entry FROM jobs)
WHERE entry.key LIKE 'version.%'"""

_STATES = """SELECT c.run AS run, c.case AS "case", j.job AS job, j.started AS started, j.commit AS commit,
    j.device AS device, c.platform || '/' || c.target || '/' || c.toolchain || '/' || c.op || '.' || c.direction
    AS cell, c.platform AS platform, c.target AS target, c.toolchain AS toolchain, c.op AS op,
    c.direction AS direction, c.message AS message, c.seconds AS seconds,
    OCCUPANCY AS occupancy,
    CASE WHEN c.outcome = 'pass' AND c.action = 'compile' THEN 'compiled'
        WHEN c.outcome = 'pass' AND ONLY_ASSERTS THEN 'held' ELSE c.outcome END AS outcome,
    CASE WHEN c.outcome = 'fail' THEN 8 WHEN c.outcome = 'error' THEN 7 WHEN c.outcome = 'missing' THEN 6
        WHEN c.outcome = 'unavailable' THEN 5 WHEN c.outcome = 'excluded' THEN 1
        WHEN c.action = 'compile' THEN 4 WHEN ONLY_ASSERTS THEN 3 ELSE 2 END AS badness
FROM cases AS c JOIN jobs AS j ON c.run = j.run
WHERE c.op <> '' AND c.case NOT LIKE 'bench:%'""".replace(
    # The test of a suite that asserts by itself, and has compared no number.
    "ONLY_ASSERTS",
    f"c.direction = '{ASSERTED}' AND NOT coalesce(c.figures['elements'] > 0, false)",
)
# The noise ratio of an output as the noise of results is made: never the one that a record says.
_NOISE_RATIO = """CASE WHEN rel_fro IS NOT NULL AND floor_rel_fro > 0 AND floor_rel_fro < CAST('inf' AS DOUBLE) THEN
    CASE WHEN coalesce("nan", 0) <> 0 OR coalesce("inf", 0) <> 0 OR isNaN(rel_fro) OR rel_fro < 0
        THEN CAST('inf' AS DOUBLE) ELSE rel_fro / floor_rel_fro END END"""
_WORD = """CASE WHEN BADNESS = 8 THEN 'fail' WHEN BADNESS = 7 THEN 'error' WHEN BADNESS = 6 THEN 'missing'
        WHEN BADNESS = 5 THEN 'unavailable' WHEN BADNESS = 4 THEN 'compiled' WHEN BADNESS = 3 THEN 'held'
        WHEN BADNESS = 2 THEN 'pass'
        ELSE 'excluded' END"""
_COUNTED = {
    "passed": "pass",
    "held": "held",
    "compiled": "compiled",
    "failed": "fail",
    "errors": "error",
    "missing": "missing",
    "unavailable": "unavailable",
    "excluded": "excluded",
}
_KEY = ("run", "job", "started", "commit", "device", "cell", "platform", "target", "toolchain", "op", "direction")


def _cells() -> str:
    counts = ",\n    ".join(
        f"sum(CASE WHEN s.outcome = '{outcome}' THEN 1 ELSE 0 END) AS {column}" for column, outcome in _COUNTED.items()
    )
    key = ", ".join(f"s.{name}" for name in _KEY)
    return f"""SELECT {", ".join(f"s.{name} AS {name}" for name in _KEY)},
    {_word("max(s.badness)")} AS outcome,
    count(*) AS cases,
    {counts},
    sum(s.seconds) AS seconds, max(n.noise) AS noise,
    min(s.occupancy) AS occupancy
FROM states AS s
LEFT JOIN (SELECT run, o.case AS "case", max(noise_ratio) AS noise FROM outputs AS o GROUP BY run, o.case) AS n
    ON s.run = n.run AND s.case = n.case
GROUP BY {key}"""


# A figure of 0 was not measured.
_TIMES = """SELECT j.run AS run, j.job AS job, j.started AS started, j.commit AS commit, j.device AS device,
    c.platform || '/' || c.target || '/' || c.toolchain || '/' || c.op || '.' || c.direction AS cell, c.case AS "case",
    CASE WHEN c.case LIKE 'bench:%' THEN 'bench' ELSE 'race' END AS method,
    CASE WHEN c.case LIKE 'bench:%' THEN c.figures['bench.median_us'] / 1e6 ELSE c.figures['time.run'] END AS seconds,
    nullif(c.figures['bench.p5_us'], 0) / 1e6 AS p5, nullif(c.figures['bench.p95_us'], 0) / 1e6 AS p95,
    CASE WHEN c.case LIKE 'bench:%' THEN nullif(c.figures['bench.baseline_us'], 0) / 1e6
        ELSE c.figures['time.eager'] END AS baseline,
    CASE WHEN c.case LIKE 'bench:%' THEN nullif(c.figures['bench.baseline_ratio'], 0)
        ELSE c.figures['time.ratio'] END AS ratio,
    CASE WHEN c.case LIKE 'bench:%' THEN c.figures['bench.samples'] ELSE c.figures['time.rounds'] END AS rounds,
    nullif(c.figures['bench.floor_share'], 0) AS floor_share, nullif(c.figures['bench.copy_gbs'], 0) AS copy_gbs
FROM jobs AS j JOIN cases AS c ON j.run = c.run
WHERE c.op <> '' AND (c.figures['time.run'] > 0 OR c.figures['bench.median_us'] > 0)"""


def _transitions() -> str:
    """Return the view of transitions.

    Only cases that the run before had too are compared: a run of fewer cases changes nothing. The run before is of the
    same job on the same device. Of a group of cases, the worst counts.
    """
    changed = "string_agg(TEXT, ', ' ORDER BY TEXT)".replace(
        "TEXT", "b.distribution || ' ' || b.version || ' -> ' || a.version"
    )
    return f"""WITH steps AS (
    SELECT run, "case", job, started, commit, device, cell, message, badness,
        lag(badness, 1, 0) OVER (PARTITION BY "case", job, device ORDER BY started, run) AS badness_before,
        lag(coalesce(CAST(started AS varchar), '') || ' ' || run, 1, '')
            OVER (PARTITION BY "case", job, device ORDER BY started, run) AS run_before
    FROM states
), changes AS (
    SELECT run, job, started, commit, device, cell, max(badness) AS now, max(badness_before) AS earlier,
        substr(max(run_before), -16) AS run_before, substr(max(CAST(badness AS varchar) || message), 2) AS reason
    FROM steps WHERE badness_before > 0
    GROUP BY run, job, started, commit, device, cell
), upgrades AS (
    SELECT p.run AS run, p.run_before AS run_before, {changed} AS versions
    FROM (SELECT DISTINCT run, run_before FROM changes WHERE now <> earlier) AS p
    JOIN versions AS a ON a.run = p.run
    JOIN versions AS b ON b.run = p.run_before AND b.distribution = a.distribution
    WHERE a.version <> b.version
    GROUP BY p.run, p.run_before
)
SELECT c.cell AS cell, {_word("c.earlier")} AS before, {_word("c.now")} AS after, c.started AS since,
    c.commit AS commit, j.commit AS commit_before, coalesce(u.versions, '') AS versions,
    CASE WHEN c.now > 5 THEN c.reason ELSE '' END AS reason, c.job AS job, c.device AS device, c.run AS run,
    c.run_before AS run_before
FROM changes AS c
JOIN jobs AS j ON j.run = c.run_before
LEFT JOIN upgrades AS u ON u.run = c.run AND u.run_before = c.run_before
WHERE c.now <> c.earlier"""


# An operator on a platform: red if a case is, else what is known best.
_ON_PLATFORM = """SELECT commit, platform, op || '.' || direction AS operator, min(started) AS started,
    CASE WHEN sum(failed + errors) > 0 THEN 'red' WHEN sum(passed + held) > 0 THEN 'works'
        WHEN sum(compiled) > 0 THEN 'compiled' ELSE 'nothing' END AS support
FROM cells WHERE cases > excluded
GROUP BY commit, platform, op, direction"""

_COVERAGE = f"""SELECT commit, platform, min(started) AS started, count(*) AS operators,
    sum(CASE WHEN support = 'works' THEN 1 ELSE 0 END) AS works,
    sum(CASE WHEN support = 'compiled' THEN 1 ELSE 0 END) AS compiled,
    sum(CASE WHEN support = 'red' THEN 1 ELSE 0 END) AS red,
    sum(CASE WHEN support = 'nothing' THEN 1 ELSE 0 END) AS nothing,
    sum(CASE WHEN support = 'works' THEN 1 ELSE 0 END) / count(*) AS share
FROM ({_ON_PLATFORM}) AS p
GROUP BY commit, platform"""

_GAPS = f"""WITH everything AS ({_ON_PLATFORM}), newest AS (
    SELECT operator, platform, support FROM (
        SELECT operator, platform, support,
            row_number() OVER (PARTITION BY operator, platform ORDER BY started DESC) AS age
        FROM everything
    ) AS aged WHERE age = 1
)
SELECT w.operator AS operator, string_agg(DISTINCT w.platform, ', ' ORDER BY w.platform) AS works_on,
    o.platform AS platform, o.support AS support
FROM newest AS w JOIN newest AS o ON o.operator = w.operator
WHERE w.support = 'works' AND o.support <> 'works'
GROUP BY w.operator, o.platform, o.support"""


def statements(sources: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that make the views; ``sources`` are what each table is selected from."""
    for table in TABLES:
        later = "".join(f", coalesce(others['{name}'], {name}) AS {name}" for name in LATER)
        columns = f"* REPLACE ({_NOISE_RATIO} AS noise_ratio{later})" if table == "outputs" else "*"
        yield f"CREATE VIEW {table} AS SELECT {columns} FROM {sources[table]}"
    texts = {
        "versions": _VERSIONS,
        "states": _STATES.replace("OCCUPANCY", occupancy("c.target", "c.figures")),
        "cells": _cells(),
        "times": _TIMES,
        "transitions": _transitions(),
        "coverage": _COVERAGE,
        "gaps": _GAPS,
    }
    for view in VIEWS:
        yield f"CREATE VIEW {view} AS {texts[view]}"


def _word(badness: str) -> str:
    return _WORD.replace("BADNESS", badness)
