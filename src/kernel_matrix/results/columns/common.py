"""The medians of the figures that the results of a case have in common, as SQL: see results/common_figures.py."""

from __future__ import annotations

from kernel_matrix.results.columns.judging import RAN
from kernel_matrix.results.columns.schema import COMMON
from kernel_matrix.results.columns.sql import Connection, temporary, view
from kernel_matrix.results.common_figures import FEWEST
from kernel_matrix.results.limits import FIGURES, SOURCES


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
               substring(o.output, length(split_part(o.output, '@', 1)) + 1) AS variant,
               {", ".join(f"o.{name}" for name in FIGURES)}, o.growth, o.limit_growth
        FROM accepted a JOIN outputs o USING (record) WHERE a.{RAN}
          -- Tests of a suite that do not say which inputs they had are not compared with one another.
          AND NOT (a.owed IN (SELECT owed FROM plan_owed WHERE asserted) AND a.digest = '')
        """,
    )
    temporary(connection, "common_sources", _SOURCES_OF_ALL_VARIANTS)
    connection.execute(_KEEP_ONE_VARIANT).fetchall()
    temporary(connection, "common_figures", _MEDIANS)


# The figures that have a median. ``rank`` is least in the variant of a result that was chosen, else in the first.
_SOURCES_OF_ALL_VARIANTS = f"""
    SELECT key, name, is_stale, coalesce(elements, 0) AS elements, {", ".join(SOURCES)}, ordinal, variant,
           CASE WHEN variant IN ('', '@') THEN -1 - place ELSE place END AS rank
    FROM ran_outputs WHERE {" AND ".join(f"isfinite({name})" for name in SOURCES)}
"""
# One variant of each result. Few results have several.
_KEEP_ONE_VARIANT = """
    DELETE FROM common_sources WHERE rowid IN (
        SELECT rowid FROM common_sources SEMI JOIN (FROM common_sources WHERE variant <> '') USING (ordinal)
        QUALIFY row_number() OVER (PARTITION BY ordinal, name ORDER BY rank) > 1
    )
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
