"""The medians of the figures that the results of a case have in common, as SQL: see results/common_figures.py."""

from __future__ import annotations

from kernel_matrix.results.columns.judging import RAN
from kernel_matrix.results.columns.schema import COMMON
from kernel_matrix.results.columns.sql import Connection, temporary, view
from kernel_matrix.results.common_figures import FEWEST
from kernel_matrix.results.limits import SOURCES


def find_common_figures(connection: Connection) -> None:
    """Make ``common_figures``: the medians of the figures of the accepted results that ran.

    The medians are by the name of the case, the output, and whether the results are stale. Of the variants of one
    result the one that was chosen counts, else the first. Fewer than three results have no median.
    """
    view(connection, "ran_sources", _SOURCES_OF_OUTPUTS)
    temporary(connection, "varied", "SELECT DISTINCT ordinal FROM ran_sources WHERE variant <> ''")
    temporary(connection, "chosen_variants", _CHOSEN)
    # Few results have variants, and only of these it is asked which of them counts.
    view(
        connection,
        "common_sources",
        "FROM ran_sources WHERE ordinal NOT IN (FROM varied) OR (ordinal, place) IN (FROM chosen_variants)",
    )
    temporary(connection, "common_figures", _MEDIANS)


_SOURCES_OF_OUTPUTS = f"""
    SELECT a.key, a.stale > 0 AS is_stale, a.ordinal, o.place, split_part(o.output, '@', 1) AS name,
           o.output[length(split_part(o.output, '@', 1)) + 1:] AS variant,
           coalesce(o.elements, 0) AS elements, {", ".join(f"o.{name}" for name in SOURCES)}
    FROM accepted a JOIN outputs o USING (record)
    WHERE a.{RAN} AND {" AND ".join(f"isfinite(o.{name})" for name in SOURCES)}
      -- Tests of a suite that do not say which inputs they had are not compared with one another.
      AND NOT (a.owed IN (SELECT owed FROM plan_owed WHERE asserted) AND a.digest = '')
"""
# Of the outputs with the same name in one result the first by rank: the last that is no variant, else the first.
_CHOSEN = """
    SELECT ordinal, arg_min(place, CASE WHEN variant IN ('', '@') THEN -1 - place ELSE place END) AS place
    FROM ran_sources SEMI JOIN varied USING (ordinal) GROUP BY ordinal, name
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
