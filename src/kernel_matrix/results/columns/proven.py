"""The proof that the figures of a result that passed are in order, as SQL: see results/proof.py.

A result whose figures are near a limit is left to the functions of that module. So a rule here may doubt a good result,
and must never take a bad one.
"""

from __future__ import annotations

from kernel_matrix.job.budget import EPSILON
from kernel_matrix.results.columns.judging import RAN
from kernel_matrix.results.columns.sql import Connection, temporary
from kernel_matrix.results.common_figures import FLOOR
from kernel_matrix.results.limits import FIGURES, ROUNDING, SOURCES

_CAREFUL = 1 - 1e-6  # of a limit: figures nearer to it are left to the functions that compute it exactly


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
    of_names AS (  -- what matrix.yaml says of an output by its name; a join with lists would copy them to every output
        SELECT owed, name, bool_or(part = 'names') AS is_named, bool_or(part = 'sums') AS is_sum,
               any_value(factor) AS factor, any_value(rounded) AS rounded, any_value(cap) AS cap
        FROM (
            SELECT owed, unnest(names) AS name, 'names' AS part, NULL AS factor, NULL AS rounded, NULL AS cap
            FROM plan_owed
            UNION ALL SELECT owed, unnest(sums), 'sums', NULL, NULL, NULL FROM plan_owed
            UNION ALL SELECT owed, output, 'budget', factor, rounded, cap FROM plan_budgets
        ) GROUP BY owed, name
    ),
    of_deciding AS (
        SELECT d.ordinal, d.key, d.stale > 0 AS is_stale, split_part(o.output, '@', 1) AS name,
               substring(o.output, length(split_part(o.output, '@', 1)) + 1) AS variant,
               {", ".join(f"o.{name}" for name in FIGURES)}, o.growth, o.limit_growth,
               w.any_name OR coalesce(n.is_named, false) AS is_named,
               CASE WHEN coalesce(n.is_sum, false) THEN w.growth_of_sums ELSE w.growth_of_others END AS planned_growth,
               coalesce(n.factor, w.factor) AS factor, coalesce(n.rounded, w.rounded) AS rounded, w.ulps,
               coalesce(n.cap, w.cap) * o.unit AS cap_of_unit
        FROM deciding d JOIN outputs o USING (record)
        JOIN (SELECT * EXCLUDE (names, sums), len(names) = 0 AS any_name FROM plan_owed) w ON w.owed = d.owed
        LEFT JOIN of_names n ON n.owed = d.owed AND n.name = split_part(o.output, '@', 1)
        WHERE d.outcome = 'pass' AND d.{RAN} AND NOT w.asserted  -- of a test of a suite the functions decide
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
               c.key IS NOT NULL AS has_common, c.elements AS usual_elements, usual_spacing,
               {", ".join(f"c.{name} AS usual_{name}" for name in SOURCES)}
        FROM noise n
        LEFT JOIN (SELECT *, {_spacing("largest")} AS usual_spacing FROM common_figures) c USING (key, name, is_stale)
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
        ("max_abs", "usual_spacing"),
        ("rel_fro", f"{EPSILON!r}"),
    ):
        usual = f"greatest(usual_floor_{kind}, usual_conditioning_{kind}, ulps * {least})"
        conditions.append(f"floor_{kind} <= {_CAREFUL * FLOOR} * {usual}")
    return f"(NOT has_common OR ({' AND '.join(conditions)}))"


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
        AND coalesce(growth, 0) <= coalesce(planned_growth, limit_growth, 0)
        AND is_named
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
