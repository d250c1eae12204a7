"""Samples travel beside the JUnit XML, and a file of samples that no job writes is refused."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, records_in

from kernel_matrix.job.sample import take
from kernel_matrix.machines.services import buildkite
from kernel_matrix.results import junit, samples
from kernel_matrix.results.collect import collect
from kernel_matrix.results.record import Record
from kernel_matrix.results.ulp import values_of
from kernel_matrix.results.validation import Bounds

JOB = {"job": "here.good", "device": "x"}
NAME = "here/any/good/double.forward/tokens1"


def record(case: str = NAME, **fields) -> Record:
    key = case.split("/", 3)[-1]
    rng = np.random.default_rng(len(case))
    outputs = {"out": rng.normal(size=(40, 50)).astype(np.float32), "r": rng.normal(size=7).astype(np.float16)}
    entry = {name: take(key, name, array) for name, array in outputs.items()}
    given = {"outcome": "pass", "action": "run", "facts": {"inputs.sha256": "00ff" * 4}, "job": JOB}
    metrics = {"elements": 2007.0, "out.elements": 2000.0, "r.elements": 7.0}
    return Record(case, samples=samples.of_entry(entry), metrics=metrics, **{**given, **fields})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    write(folder / "here.good.xml", [record(), record(f"{NAME}2")])
    return folder


def write(path: Path, records: list[Record]) -> None:
    junit.write(path, path.stem, records, records[0].job)
    samples.write(samples.beside(path), records)


def test_samples_come_back_with_their_records(results):
    collected = collect([results])
    assert collected.broken == ()
    assert [r.samples for r in collected.records] == [record().samples, record(f"{NAME}2").samples]
    assert len(collected.records[0].samples["out"].bits) == 128 * 4
    assert collected.records[0].samples["r"].shape == (7,)


def test_a_file_of_results_named_alone_is_read_with_its_samples(results):
    assert collect([results / "here.good.xml"]).records[0].samples == record().samples


def test_results_without_samples_stay_readable_and_leave_no_file(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"of an earlier run")
    write(tmp_path / "a.xml", [replace(record(), samples={})])
    assert not (tmp_path / "a.npz").exists()
    collected = collect([tmp_path])
    assert collected.broken == ()
    assert collected.records[0].samples == {}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"out": 3},
        {"out": {"dtype": "int8", "shape": [1], "sha256": "0" * 16, "bits": "AA=="}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "0" * 16, "bits": "AA=="}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "0" * 16, "bits": "not base64!"}},
        {"out": {"dtype": "fp32", "shape": [-1], "sha256": "0" * 16, "bits": ""}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "x", "bits": "AAAAAA=="}},
    ],
)
def test_an_entry_of_the_journal_that_is_no_sample_gives_none(entry):
    assert samples.of_entry(entry) == {}


def packed(index: object, bits: bytes, extra: str = "", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an npz file with this index and these bits."""
    content = index if isinstance(index, bytes) else json.dumps(index).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in (("index.npy", content), ("bits.npy", bits)):
            stream = io.BytesIO()
            np.save(stream, np.frombuffer(data, np.uint8))
            archive.writestr(name, stream.getvalue())
        if extra:
            with warnings.catch_warnings(action="ignore"):  # a name that is there already
                archive.writestr(extra, b"")
    return file.getvalue()


def unpacked(path: Path) -> tuple[dict, bytes]:
    """Return the index and the bits of a file."""
    with np.load(path, allow_pickle=False) as arrays:
        return json.loads(arrays["index"].tobytes()), arrays["bits"].tobytes()


def edit(change):
    """Return a change of the file that ``change`` makes in its first case, or in its index."""

    def edited(path: Path) -> bytes:
        index, bits = unpacked(path)
        return packed(change(index, index["suites"][0]["cases"][NAME]) or index, bits)

    return edited


def pickled(path: Path) -> bytes:
    file = io.BytesIO()
    np.savez(file, index=np.array([{"a": 1}], dtype=object), bits=np.zeros(1, np.uint8), allow_pickle=True)
    return file.getvalue()


def with_header(path: Path, shape: str) -> bytes:
    """Return the file with another shape in the header of its bits."""
    index, bits = unpacked(path)
    whole = packed(index, bits, method=zipfile.ZIP_STORED)
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(file, "w") as new:
        new.writestr("index.npy", old.read("index.npy"))
        old_shape = f"({len(bits)},)".encode()
        header = old.read("bits.npy").replace(old_shape, shape.encode().ljust(len(old_shape)), 1)
        new.writestr("bits.npy", header)
    return file.getvalue()


def with_size(path: Path) -> bytes:
    """Return a file whose bits unpack to more bytes than its directory says."""
    size = 70_128
    whole = packed(unpacked(path)[0], b"\0" * (size - 128))
    return whole.replace(size.to_bytes(4, "little"), (500).to_bytes(4, "little"))


HOSTILE = {
    "cut short": (lambda path: path.read_bytes()[:-40], "it is not a whole npz file"),
    "other bytes": (lambda path: b"\x93NUMPY", "it is not a whole npz file"),
    "pickled": (pickled, "it is not a whole npz file"),
    "one more array": (lambda path: packed(*unpacked(path), extra="../evil.npy"), "bits.npy and index.npy and nothing"),
    "the same name twice": (lambda path: packed(*unpacked(path), extra="bits.npy"), "nothing else"),
    "another packing": (lambda path: packed(*unpacked(path), method=zipfile.ZIP_LZMA), "packed in another way"),
    "a bomb": (lambda path: packed(unpacked(path)[0], b"\0" * 70_000), "bits.npy has 70128 bytes, and 60000 is the"),
    "a bomb that lies": (with_size, "it is not a whole npz file"),
    "a header that lies": (lambda path: with_header(path, "(9999,)"), "no array of bytes"),
    "not JSON": (lambda path: packed(b"{", unpacked(path)[1]), "its index cannot be used"),
    "deep JSON": (lambda path: packed(b"[" * 9_000, unpacked(path)[1]), "its index cannot be used"),
    "another version": (edit(lambda index, case: index.update(schema_version=2)), "schema_version: Input should be 1"),
    "a key too many": (edit(lambda index, case: index.update(more=1)), "more: Extra inputs"),
    "another suite": (edit(lambda index, case: index["suites"].append(index["suites"][0])), "it has 2 suites"),
    "another job": (edit(lambda index, case: index["suites"][0].update(job="there")), "it is of the job 'there'"),
    "other inputs": (edit(lambda index, case: case.update(inputs="11" * 8)), "the inputs of 'here/any/good"),
    "another count": (edit(lambda index, case: case["outputs"]["out"].update(count=127)), "out of 'here/any/good"),
    "another shape": (edit(lambda index, case: case["outputs"]["out"].update(shape=[4000])), "number of elements"),
    "an unknown dtype": (edit(lambda index, case: case["outputs"]["out"].update(dtype="int8")), "Input should be 'fp6"),
    "a wider dtype": (edit(lambda index, case: case["outputs"]["out"].update(dtype="fp64")), "fewer bytes than its in"),
    "a narrower dtype": (edit(lambda index, case: case["outputs"]["out"].update(dtype="bf16")), "belong to no output"),
    "a negative size": (edit(lambda index, case: case["outputs"]["out"].update(shape=[-1])), "greater than or equal"),
    "a name with tricks": (edit(lambda index, case: case["outputs"].update({"<b>": case["outputs"]["out"]})), "match"),
    "another case": (edit(lambda index, case: index["suites"][0]["cases"].update(x=case)), "the JUnit file has no rec"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_samples_that_no_job_writes_are_refused_and_the_results_count(results, kind):
    make, words = HOSTILE[kind]
    path = results / "here.good.npz"
    path.write_bytes(make(path))
    collected = collect([results], bounds=Bounds(sample_bytes=60_000))
    assert [r.case for r in collected.records] == [NAME, f"{NAME}2"]
    assert all(r.samples == {} for r in collected.records)
    [sentence] = collected.broken
    assert "here.good.npz: refused: " in sentence
    assert words in sentence
    assert sentence.endswith(". Its job's results count without samples.")
    assert collected.refused == {}  # no case is missing


def test_a_link_in_place_of_samples_is_refused(results, tmp_path):
    path = results / "here.good.npz"
    path.rename(tmp_path / "elsewhere.npz")
    path.symlink_to(tmp_path / "elsewhere.npz")
    [sentence] = collect([results]).broken
    assert "here.good.npz: refused: this is a symbolic link" in sentence


def test_samples_of_a_case_that_did_not_run_are_refused(tmp_path):
    write(tmp_path / "here.good.xml", [record(action="compile")])
    assert "which did not run" in collect([tmp_path]).broken[0]


def test_the_samples_of_a_case_that_is_there_twice_are_those_of_the_last(tmp_path):
    write(tmp_path / "here.good.xml", [record(), record()])
    assert collect([tmp_path]).broken == ()


def test_artifacts_carry_samples_with_the_results():
    action = (ROOT / ".github" / "actions" / "row" / "action.yml").read_text()
    for pattern in ("build/results/*/*.parquet", "build/results/*/*.jsonl"):
        assert pattern in action
        assert pattern in Path(buildkite.__file__).read_text()


@pytest.mark.slow
def test_a_job_writes_the_samples_of_what_ran_passing_or_not(doubles):
    doubles.run("wrong", "raises")
    records = sorted(records_in(doubles.root / "build" / "results"), key=lambda record: record.case)
    assert [(r.outcome, [*r.samples]) for r in records] == [
        *(("pass", ["out"]), ("error", []), ("pass", ["out"])),
        *(("pass", ["out"]), ("fail", ["out"]), ("pass", ["out"])),
    ]
    right, _, _, _, wrong, _ = records
    assert right.samples["out"].shape == (1, 8)
    assert np.isfinite(values_of(right.samples["out"])).all()
    assert wrong.samples["out"].sha256 != right.samples["out"].sha256


@pytest.mark.slow
def test_a_run_that_begins_anew_leaves_no_samples_of_the_run_before(doubles):
    doubles.run("good")
    assert any(record.samples for record in records_in(doubles.root / "build" / "results"))
    doubles.edit("targets: [any]", "targets: [elsewhere]")  # nothing runs there
    comparison = doubles.run("good")
    assert not any(record.samples for record in records_in(doubles.root / "build" / "results"))
    assert {verdict.state for cell in comparison.cells for verdict in cell.cases} <= {"unavailable", "compiled"}


@pytest.mark.slow
def test_a_resumed_run_keeps_the_samples(doubles):
    doubles.run("good")
    samples_before = collect([doubles.root / "build" / "results"]).records[0].samples
    doubles.run("good", resume=True)
    assert samples_before
    assert collect([doubles.root / "build" / "results"]).records[0].samples == samples_before
