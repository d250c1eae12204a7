"""Mutants of the compiled kernels: a few are judged here, all of them by ``ci/nox -s mutants``."""

from __future__ import annotations

import importlib.util
import json
import tomllib

import pytest
from common import ROOT, sh

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job

_SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "ci" / "mutants.py")
mutants = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(mutants)

TABLES = sorted(path.stem for path in mutants.MUTANTS.glob("*.toml"))

# Of each table faults that only one check or one case sees, of operators whose cases are quick.
FEW = {
    "triton": ["the rest of the iterations is forgotten", "stream 0 is added"],
    "cpp": ["the barrier before the sums are added up is left out", "lanes beyond the rows are added"],
    "pallas": ["a row that underflows is not raised"],
    "tvm": ["only the last span of tokens is in dphi", "the last vector of a row"],
}
NIGHTLY = {"pallas", "triton", "tvm"}


def entries(table):
    return tomllib.loads((mutants.MUTANTS / f"{table}.toml").read_text(encoding="utf-8"))["mutant"]


@pytest.mark.environments
@pytest.mark.parametrize(
    "table", [pytest.param(name, marks=[pytest.mark.nightly] if name in NIGHTLY else []) for name in FEW]
)
def test_a_few_mutants_are_killed(table, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(mutants, "verdicts_of", lambda name: tmp_path / f"{name}.json")
    assert mutants.judge(table, FEW[table]) == 0
    verdicts = json.loads((tmp_path / f"{table}.json").read_text())
    assert len(verdicts) == len(FEW[table])
    assert all(verdict["killed_by"] for verdict in verdicts)


EXPAND = "return ExpandOutputs(x.unsqueeze(1).expand(-1, streams, -1))"


EDITS = {
    "changes nothing": "return ExpandOutputs(1.0 * x.unsqueeze(1).expand(-1, streams, -1))",
    "is a fault": "return ExpandOutputs(1.01 * x.unsqueeze(1).expand(-1, streams, -1))",
    "is no Python": "return ExpandOutputs(no such name)",
}


@pytest.mark.environments
@pytest.mark.nightly
def test_a_table_s_status_says_what_became_of_it(matrix, tmp_path):
    """An edit that changes nothing survives, and one that does not compile is no mutant."""
    from kernel_matrix.run.environments import venv
    from kernel_matrix.run.executors import Request

    job = Job("cpu-llvm", "reference", ())
    python = venv.prepare(Request(ROOT, ROOT / "build", matrix, job, None, print)).python
    specification = mutants.job_of(matrix, job, "x86-64-v3")
    (tmp_path / "job.json").write_text(json.dumps(specification))
    entry = {"op": "expand", "direction": "forward", "file": "backends/reference/expand.py", "old": EXPAND}

    def judged(*names):
        tables = [{"name": name, **entry, "new": EDITS[name]} for name in names]
        lines = [["[[mutant]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())] for table in tables]
        (tmp_path / "table.toml").write_text("\n".join(line for table in lines for line in table))
        run = (str(python), str(mutants.MUTANTS / "run.py"), str(tmp_path / "table.toml"))
        path = f"{ROOT / 'src'}:{mutants.MUTANTS.parent}"
        return sh(*run, "--job", str(tmp_path / "job.json"), PYTHONPATH=path)

    done = judged("changes nothing", "is a fault")
    assert done.returncode == 1, done.stderr
    assert "changes nothing | SURVIVES" in done.stdout
    assert "is a fault | out: max_abs" in done.stdout
    done = judged("is no Python")
    assert done.returncode == 2
    assert done.stderr.startswith("'is no Python' does not run:")
    assert "SyntaxError" in done.stderr


def test_the_tables_have_mutants_of_every_operator_in_both_directions():
    matrix = load(ROOT / "matrix.yaml")
    for table in FEW:
        offered = [toolchain.ops for toolchain in matrix.toolchains.values() if toolchain.backend == table]
        ops = {op for some in offered for op in (matrix.ops if some is None else some)}
        kinds = {(op, direction) for op in ops for direction in matrix.ops[op].directions}
        assert {(entry["op"], entry["direction"]) for entry in entries(table)} == kinds, table
    assert sum(len(entries(table)) for table in TABLES) >= 60


@pytest.mark.parametrize("table", TABLES)
def test_every_mutant_edits_a_text_that_is_there_once(table):
    names = [entry["name"] for entry in entries(table)]
    assert len(set(names)) == len(names)
    for entry in entries(table):
        text = (ROOT / "src" / "mhc" / entry["file"]).read_text(encoding="utf-8")
        assert text.count(entry["old"]) == 1, f"{entry['name']}: {entry['file']} has changed"
        assert entry["old"] != entry["new"]


def test_the_kept_verdicts_are_of_every_mutant_and_each_is_killed():
    head, *rows = [line.split("\t") for line in mutants.KEPT.read_text(encoding="utf-8").splitlines()]
    assert tuple(head) == mutants.COLUMNS
    expected = [[table, each["op"], each["direction"], each["name"]] for table in TABLES for each in entries(table)]
    assert [row[:4] for row in rows] == expected, "judge them anew: ci/nox -s mutants"
    assert [row for row in rows if "nothing" in row[4]] == [], "a mutant survives"


def test_verdicts_are_kept_as_the_page_reads_them(tmp_path, monkeypatch):
    verdict = {"op": "expand", "direction": "forward", "name": "a fault", "killed_by": "out: 3 NaN and 0 Inf in 5"}
    monkeypatch.setattr(mutants, "verdicts_of", lambda name: tmp_path / f"{name}.json")
    (tmp_path / "tvm.json").write_text(json.dumps([verdict | {"tier": "full"}, verdict | {"tier": "quick"}]))
    assert mutants.kept(["tvm"]).splitlines() == [
        "\t".join(mutants.COLUMNS),
        "tvm\texpand\tforward\ta fault\tNaN: out (only in the tier full)",
        "tvm\texpand\tforward\ta fault\tNaN: out",
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "h_in: max_abs 0.1 is over 0.01; h_in: rel_fro 0.06 is over 0.002; m: rel_fro 1 is over 0.5",
            "budget: h_in, m",
        ),
        ("out: 1400 NaN and 0 Inf in 5600 elements", "NaN: out"),
        ("x: 3 NaN and 0 Inf in 5 elements; phi: max_abs 1 is over 0.1", "NaN: x; budget: phi"),
        ("a row sums to one off by 0.2", "a row sums to one"),
        (
            "launch: gpu_emulators.common.errors.FoundError: a+0x1c: it reads 4 bytes at 0x3fc, which is (wave 0); b",
            "launch: it reads 4 bytes at an address, which is",
        ),
        ("h_post of 4·x: off by 0.3, over 2e-05", "h_post of 4·x:"),
        (
            "the kernel wrote past an end of its output h [kit-past-end]",
            "the kernel wrote past an end of its output h [kit-past-end]",
        ),
        (None, "**nothing**"),
    ],
)
def test_the_page_says_what_killed_a_mutant_without_figures(said, words):
    assert mutants.words(said) == words
