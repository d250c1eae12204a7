"""The tables can grow: a harness with other columns reads what this one and each before it has written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from common import ROOT, write_results
from loops import at_least
from records import GOOD
from test_tables import rewritten
from together import by_day

from kernel_matrix.audit.files import choose
from kernel_matrix.job.accuracy import FIGURES as MEASURED
from kernel_matrix.store import names
from kernel_matrix.store.load import collect
from kernel_matrix.store.names import TABLES
from kernel_matrix.store.schema import ADDED, FIGURES, LATER, OLDEST, SCHEMAS, VERSION, WITHDRAWN

KEPT = Path(__file__).parent / "versions"
RUN, SET, SIGNED = KEPT / "1" / "run", KEPT / "1" / "set", KEPT / "signed"
PRESENT = KEPT / str(VERSION) / "run"

# What a harness says of folders: what was refused, all records, the same by the audit, and the answer of a query.
SAYS = """
import json, sys
from pathlib import Path
from kernel_matrix.audit.files import choose
from kernel_matrix.store.database import database
from kernel_matrix.store.load import collect, load
from kernel_matrix.store.pack import pack
from kernel_matrix.store.query import ask
from kernel_matrix.store.record import TOLD_BY
from kernel_matrix.store.write import write_all

query, new, *folders = sys.argv[1:]
folders = [Path(folder) for folder in folders]
found = collect(folders)
if new:  # what was read is written once more, as this harness writes it, and packed
    write_all(Path(new) / "runs", found.records)
    pack([Path(new) / "runs", *folders], Path(new) / "set")
    again = [repr(sorted(map(repr, collect([Path(new) / name]).records))) for name in ("runs", "set")]
    assert again[0] == again[1] == repr(sorted(map(repr, found.records))), again
chosen = choose(folders, found.broken)
with database() as connection:
    load(connection, folders)
    told = connection.execute(f"SELECT count(*) FROM jobs WHERE facts['{TOLD_BY}'] IS NOT NULL").fetchall()[0][0]
print(json.dumps({
    "broken": found.broken,
    "records": sorted(
        [one.run, one.case, one.outcome, dict(sorted(one.metrics.items())), len(one.samples)] for one in found.records
    ),
    "audit": sorted([one.case, dict(sorted(one.metrics.items()))] for of in chosen.by_case.values() for one in of),
    "silent": chosen.silent,
    "told": told,
    "answer": ask(query, folders).rows if query else [],
}))
"""


def says(*folders: Path, root: Path = ROOT, query: str = "", new: Path | None = None) -> dict[str, Any]:
    """Return what the harness below a folder says of results."""
    command = [sys.executable, "-c", SAYS, query, str(new or ""), *map(str, folders)]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def another(folder: Path, changes: Mapping[str, tuple[str, str]]) -> Path:
    """Return the folder of a harness in which texts of modules of the store are others."""
    ignored = shutil.ignore_patterns("__pycache__", "app", "tools", "adopt")
    shutil.copytree(ROOT / "src" / "kernel_matrix", folder / "src" / "kernel_matrix", ignore=ignored)
    for place, (before, after) in changes.items():
        path = folder / "src" / "kernel_matrix" / "store" / f"{place.partition(' ')[0]}.py"
        text = path.read_text()
        assert text.count(before) == 1, (place, before)
        path.write_text(text.replace(before, after))
    return folder


RAISED = {"schema version": (f"VERSION = {VERSION}  #", f"VERSION = {VERSION + 1}  #")}
LAST = '    "growth": "The power'
ONE_MORE = {"schema figure": (LAST, f'    "abs_p99": "The error of 99.",\n{LAST}')}
TAKEN_OUT = {"schema figure": ('    "ulp_median": "The median error in ULP.",\n', "")}
GONE = '"outputs": (_optional("ulp_median", pa.float64(), "Gone."),),'
KNOWN_STILL = {"schema withdrawn": ('"outputs": (),', GONE)}
PROMOTED = {
    "schema figure": (LAST, f'    "unusual": "A figure.",\n{LAST}'),
    "schema later": ("LATER: tuple[str, ...] = ()", 'LATER: tuple[str, ...] = ("unusual",)'),
}
WIDER = {"schema type": ('_owed("schema_version", pa.int32()', '_owed("schema_version", pa.int64()')}
FACTS = '    _owed("facts", _TEXTS, "All facts of the case'
A_FACT_MORE = {
    "schema column": (FACTS, f'    _optional("process", pa.string(), "Whose it was."),\n{FACTS}'),
    "schema fact": ('"artifact_kind": "artifact.kind"}', '"artifact_kind": "artifact.kind", "process": "process"}'),
}
OWED = {**A_FACT_MORE, "schema column": (FACTS, A_FACT_MORE["schema column"][1].replace("_optional", "_owed"))}
JOBS_LAST = '    yield "jobs", _table'
A_TABLE_MORE = {
    "schema added": ("ADDED: Mapping[str, int] = {}", f'ADDED: Mapping[str, int] = {{"kernels": {VERSION + 1}}}'),
    "schema withdrawn": ('"samples": ()}', '"samples": (), "kernels": ()}'),
    "schema table": ('"samples": SAMPLES}', '"samples": SAMPLES, "kernels": (_RUN, _CASE)}'),
    "names tables": ('"outputs", "samples")', '"outputs", "samples", "kernels")'),
    "checks free": ('    "samples": ("output",),', '    "samples": ("output",),\n    "kernels": (\'"case"\',),'),
    "checks keys": ('"cases": \'run, "case"\',', '"cases": \'run, "case"\', "kernels": \'run, "case"\','),
    "checks conditions": ('"samples": _of_samples}', '"samples": _of_samples, "kernels": tuple}'),
    "rows writes": (JOBS_LAST, f'    yield "kernels", SCHEMAS["kernels"].empty_table()\n{JOBS_LAST}'),
}

# What a maintainer changes, a query, and its answer over the kept run of version 1.
GROWN: Mapping[str, tuple[Mapping[str, tuple[str, str]], str, list[list[object]]]] = {
    "a figure more": (ONE_MORE, "SELECT count(*), count(abs_p99) FROM outputs", [[4, 0]]),
    "a column for a figure that had none": (
        PROMOTED | RAISED,
        "SELECT unusual, others FROM outputs ORDER BY unusual LIMIT 1",
        [[3.0, {"unusual": 3.0}]],
    ),
    "a figure less": (TAKEN_OUT | KNOWN_STILL | RAISED, "SELECT count(max_abs) FROM outputs", [[2]]),
    "a wider type, and a column of cases": (
        WIDER | A_FACT_MORE | RAISED,
        (
            "SELECT typeof(schema_version), schema_version, of_cases.* FROM jobs, "
            "(SELECT count(*), count(process) FROM cases) AS of_cases"
        ),
        [["BIGINT", 1, 4, 0]],
    ),
}


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return says(RUN, SET, SIGNED)


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "query", "answer"), by_day(1, GROWN.values()), ids=GROWN)
def test_a_harness_with_other_columns_reads_what_this_one_has_written(tmp_path, now, changes, query, answer):
    root = another(tmp_path, changes)
    assert says(RUN, SET, SIGNED, root=root, new=None) == {**now, "answer": []}
    shown = says(RUN, root=root, query=query, new=tmp_path / "new")
    assert shown["answer"] == answer
    assert shown["broken"] == []


def test_the_kept_runs_are_whole_and_say_what_they_said(now):
    assert now["broken"] == now["silent"] == []
    assert len(now["records"]) == 5
    assert len(now["audit"]) == 5
    assert now["told"] == 1
    [full] = [metrics for _, case, _, metrics, _ in now["records"] if case.endswith("-all")]
    assert full.keys() > {f"out.{name}" for name in MEASURED}
    assert [samples for *_, samples in now["records"]].count(2) == 1


def test_there_is_a_kept_run_of_every_version_that_can_be_read():
    kept = sorted(int(path.name) for path in at_least(2, KEPT.iterdir()) if path.name.isdigit())
    assert kept == [*range(OLDEST, VERSION + 1)], "keep one: tests/store/versions/keep.py"
    for version in kept:
        for folder in ("run", "set"):
            found = collect([KEPT / str(version) / folder])
            assert found.broken == ()
            assert len(found.records) == (4 if folder == "run" else 1)
            assert len(choose([KEPT / str(version) / folder], []).by_case) == len(found.records)


def test_what_the_schema_says_of_earlier_versions_agrees_with_their_kept_runs():
    for table in TABLES:
        [path] = (RUN / table).iterdir()
        first, now = set(pq.ParquetFile(path).schema_arrow.names), set(SCHEMAS[table].names)
        gone = {column.name for column in WITHDRAWN[table]}
        assert first - now <= gone, "a column that was taken out stands in WITHDRAWN"
        assert not gone & now
        assert all(SCHEMAS[table].field(name).nullable for name in now - first), "a column that is new may be absent"
        if table == "outputs":
            assert set(LATER) <= now - first
    assert not (now_without := {*TABLES} - {*SCHEMAS}), now_without
    assert {*ADDED} <= {*TABLES}
    assert {*MEASURED} <= {*FIGURES}


# --- What is refused ---

CHANGES = RAISED | ONE_MORE
READ = f"{OLDEST} to {VERSION} can be read" if OLDEST < VERSION else f"{VERSION} is the one that can be read"
NEWER = f"outputs has the schema version '{VERSION + 1}', and {READ}: a newer kernel-matrix has written it"


def column(table: str, name: str, kind: pa.DataType, values: Callable[[int], pa.Array]) -> Callable[[Path], None]:
    """Return what gives the first file of a table a column."""

    def change(folder: Path) -> None:
        [path] = (folder / table).iterdir()

        def of(content: pa.Table) -> pa.Table:
            kept = content.drop_columns([name]) if name in content.column_names else content
            return kept.append_column(pa.field(name, kind), values(content.num_rows))

        rewritten(path, of)

    return change


def without(table: str, name: str) -> Callable[[Path], None]:
    """Return what takes a column from the first file of a table."""

    def change(folder: Path) -> None:
        [path] = (folder / table).iterdir()
        rewritten(path, lambda content: content.drop_columns([name]))

    return change


REFUSED = {
    "a column that no version knows": (
        column("outputs", "abs_p99", pa.float64(), lambda rows: pa.nulls(rows, pa.float64())),
        f"outputs has the column abs_p99, which its version {VERSION} does not know",
    ),
    "a column that every row owes": (without("cases", "message"), "cases lacks the column message"),
    "a column of another kind": (
        column("outputs", "max_abs", pa.string(), lambda rows: pa.nulls(rows, pa.string())),
        "outputs.max_abs is string, and not double",
    ),
    "a narrower column in the version that has the wide one": (
        column("outputs", "max_abs", pa.float32(), lambda rows: pa.nulls(rows, pa.float32())),
        "outputs.max_abs is float, and not double",
    ),
}


@pytest.mark.parametrize(("harm", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_column_that_is_not_of_its_version_is_refused_by_its_name(tmp_path, harm, sentence):
    shutil.copytree(PRESENT, tmp_path / "run")
    harm(tmp_path / "run")
    found = collect([tmp_path / "run", SET])
    [said] = found.broken
    assert sentence in said
    assert len(found.records) == 1
    assert choose([tmp_path / "run", SET], found.broken).silent == ()


def test_a_column_that_may_be_empty_may_be_absent(tmp_path):
    shutil.copytree(PRESENT, tmp_path / "run")
    without("outputs", "growth")(tmp_path / "run")
    [said] = collect([tmp_path / "run"]).broken
    assert "a file was changed" in said, "one of its outputs had that figure: the digest of the run finds it"
    write_results(tmp_path / "good", [GOOD])
    without("outputs", "growth")(tmp_path / "good")
    assert collect([tmp_path / "good"]).broken == ()


@pytest.mark.slow
def test_what_a_newer_harness_has_written_is_refused_in_one_sentence(tmp_path):
    says(RUN, root=another(tmp_path / "newer", CHANGES), new=tmp_path / "new")
    for name in ("runs", "set"):
        found = collect([tmp_path / "new" / name, SET])
        [said] = found.broken
        assert NEWER.partition(" ")[2] in said
        assert len(found.records) == 1
    unknown = f"outputs has the column ulp_median, which its version {VERSION} does not know"
    wrong = {
        unknown: TAKEN_OUT | RAISED,
        f"{unknown}.": TAKEN_OUT | KNOWN_STILL,
        "cases lacks the column process": OWED,
    }
    for number, (words, changes) in enumerate(wrong.items()):
        [said] = says(PRESENT, root=another(tmp_path / str(number), changes))["broken"]
        assert words in said


@pytest.mark.slow
def test_a_table_that_an_earlier_version_lacks_is_owed_by_the_present_one(tmp_path, now):
    root = another(tmp_path / "newer", A_TABLE_MORE | RAISED)
    assert says(RUN, SET, SIGNED, root=root) == now
    shown = says(RUN, root=root, query="SELECT count(*) FROM cases", new=tmp_path / "new")
    assert (shown["answer"], shown["broken"]) == ([[4]], [])
    for path in (tmp_path / "new").rglob("kernels*/*.parquet"):
        path.unlink()
    (tmp_path / "new" / "set" / "kernels.parquet").unlink()
    for name, kind in (("runs", "a run"), ("set", "a packed set")):
        [said] = says(tmp_path / "new" / name, root=root)["broken"]
        assert f"is absent: the tables of {kind} belong together" in said


@pytest.mark.slow
def test_runs_of_two_versions_are_read_together_and_tables_of_two_make_no_run(tmp_path):
    root = another(tmp_path / "newer", CHANGES)
    says(SET, root=root, new=tmp_path / "new")
    both = says(RUN, tmp_path / "new" / "runs", root=root, query="SELECT schema_version FROM jobs ORDER BY 1")
    assert both["broken"] == []
    assert both["answer"] == [[1], [VERSION + 1]]
    assert len(both["records"]) == 5
    shutil.copytree(PRESENT, tmp_path / "mixed")
    says(PRESENT, root=root, new=tmp_path / "again")
    [files] = names.find(tmp_path / "again" / "runs")
    shutil.copy(files.path("samples"), tmp_path / "mixed" / "samples")
    [said] = says(tmp_path / "mixed", root=root)["broken"]
    assert f"its tables have different schema versions: {VERSION}, {VERSION + 1}" in said
