"""Samples of outputs <-> JOB.npz, the file beside JOB.xml in which they travel between machines.

The file holds two arrays of bytes. ``index`` is JSON: the version of this form, and for each suite of the JUnit file
its job and its cases. A case has the digest of its inputs, and of each output the dtype, the shape, the digest and the
number of sampled elements. ``bits`` are the sampled elements of all outputs, in the order of the index.
"""

from __future__ import annotations

import base64
import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from kernel_matrix.base.files import written_whole
from kernel_matrix.results.record import Record, Sample
from kernel_matrix.results.validation import Bounds, RefusedError, check_name

SCHEMA_VERSION = 1
ITEM_BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
_ARRAYS = ("bits.npy", "index.npy")
_RAN = ("run", "emulate")
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)

_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
_OutputName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.@+-]{1,120}$")]
_OUTPUT_NAME: TypeAdapter[str] = TypeAdapter(_OutputName)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Output(_Model):
    dtype: Literal["fp64", "fp32", "fp16", "bf16"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**40)]], Field(max_length=8)]
    sha256: _Digest
    count: int


class _Case(_Model):
    inputs: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{0,64}$")]
    outputs: Annotated[dict[_OutputName, _Output], Field(max_length=200)]


class _Suite(_Model):
    job: Annotated[str, StringConstraints(max_length=300)]
    cases: dict[str, _Case]


class _Index(_Model):
    schema_version: Literal[1]
    suites: list[_Suite]


class _JournalOutput(_Model):
    dtype: Literal["fp64", "fp32", "fp16", "bf16"]
    shape: list[int]
    sha256: _Digest
    bits: str


def beside(result: Path) -> Path:
    """Return the file of the samples that belong to a JUnit file."""
    return result.with_suffix(".npz")


def of_entry(samples: object) -> dict[str, Sample]:
    """Return the samples by output from an entry of the journal; none if the entry holds anything else."""
    if not isinstance(samples, dict):
        return {}
    try:
        return {str(output): _of_journal(sample) for output, sample in samples.items()}
    except ValueError:
        return {}


def to_entry(samples: Mapping[str, Sample]) -> dict[str, Any]:
    """Return samples by output as an entry of the journal holds them."""
    return {
        output: {
            "dtype": sample.dtype,
            "shape": list(sample.shape),
            "sha256": sample.sha256,
            "bits": base64.b64encode(sample.bits).decode(),
        }
        for output, sample in samples.items()
    }


def write(path: Path, records: Sequence[Record]) -> None:
    """Write the samples of the records; remove the file where no record has one."""
    if not any(record.samples for record in records):
        path.unlink(missing_ok=True)
        return
    import numpy as np  # here and below: importing it takes longer than most commands, and few read samples

    # A suite that has a case twice has one sample of it: the last.
    suites = [{record.case: record for record in suite if record.samples} for suite in _suites(records)]
    jobs = [suite[0].job.get("job", "") for suite in _suites(records)]
    index = {"schema_version": SCHEMA_VERSION, "suites": [_to_suite(*pair) for pair in zip(jobs, suites, strict=True)]}
    text = json.dumps(index, separators=(",", ":"))
    ordered = [record for suite in suites for record in suite.values()]
    bits = b"".join(sample.bits for record in ordered for sample in record.samples.values())
    arrays = {"index": np.frombuffer(text.encode(), np.uint8), "bits": np.frombuffer(bits, np.uint8)}
    with written_whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read(path: Path, records: Sequence[Record], bounds: Bounds) -> list[Record]:
    """Return the records of a JUnit file with the samples of the file beside it. That file is not trusted.

    Raises:
        RefusedError: it is not whole, too large, or does not agree with itself or with the records.
    """
    check_name(path, path.parent, bounds)
    arrays = _arrays(path, bounds)
    try:
        index = _Index.model_validate_json(arrays["index.npy"])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"])
        raise RefusedError(f"its index cannot be used: {place}: {first['msg']}") from None
    suites = _suites(records)
    if len(index.suites) != len(suites):
        raise RefusedError(f"it has {len(index.suites)} suites, and the JUnit file {len(suites)}")
    bits = _Bits(arrays["bits.npy"])
    with_samples = [
        record
        for suite, of_suite in zip(index.suites, suites, strict=True)
        for record in _joined(suite, of_suite, bits)
    ]
    if bits.rest:
        raise RefusedError(f"{bits.rest} bytes belong to no output")
    return with_samples


class _Bits:
    """Hand out the sampled bytes one output after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    @property
    def rest(self) -> int:
        """Return how many bytes are left."""
        return len(self._data) - self._place

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            RefusedError: there are fewer.
        """
        if size > self.rest:
            raise RefusedError("it has fewer bytes than its index says")
        self._place += size
        return self._data[self._place - size : self._place]


def _joined(suite: _Suite, records: Sequence[Record], bits: _Bits) -> Iterator[Record]:
    """Yield the records of one suite with their samples."""
    job = records[0].job.get("job", "")
    if suite.job != job:
        raise RefusedError(f"it is of the job {suite.job[:150]!r}, and the JUnit file of {job[:150]!r}")
    by_case = {record.case: record for record in records}
    samples: dict[str, dict[str, Sample]] = {}
    for name, case in suite.cases.items():  # the bits are in the order of the index
        if name not in by_case:
            raise RefusedError(f"it speaks of {name[:150]!r}, of which the JUnit file has no record")
        samples[name] = _checked(by_case[name], case, bits)
    for record in records:
        yield replace(record, samples=samples.get(record.case, {}))


def _checked(record: Record, case: _Case, bits: _Bits) -> dict[str, Sample]:
    """Return the samples of a case, which must agree with its record."""
    name = record.case[:150]
    _check_that_it_ran(record)
    if case.inputs != record.facts.get("inputs.sha256", ""):
        raise RefusedError(f"the inputs of {name!r} are others than in its record")
    samples = {}
    for output, entry in case.outputs.items():
        _check_size(record, output, entry.shape, entry.count)
        data = bits.take(entry.count * ITEM_BYTES[entry.dtype])
        samples[output] = Sample(entry.dtype, tuple(entry.shape), entry.sha256, data)
    return samples


def check(record: Record) -> None:
    """Check that the samples of a record are such as a job takes.

    Raises:
        RefusedError: they are not, or do not agree with the record.
    """
    if record.samples:
        _check_that_it_ran(record)
    for output, sample in record.samples.items():
        shape, size = list(sample.shape), ITEM_BYTES.get(sample.dtype, 0)
        count = len(sample.bits) // size if size else 0
        try:
            _Output.model_validate({"dtype": sample.dtype, "shape": shape, "sha256": sample.sha256, "count": count})
            _OUTPUT_NAME.validate_python(output)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise RefusedError(f"a sample of {record.case[:150]!r} cannot be used: {first['msg']}") from None
        _check_size(record, output, shape, count if count * size == len(sample.bits) else -1)


def _check_that_it_ran(record: Record) -> None:
    if record.action not in _RAN:
        raise RefusedError(f"it has samples of {record.case[:150]!r}, which did not run")


def _check_size(record: Record, output: str, shape: Sequence[int], count: int) -> None:
    """Check the number of samples of an output by its shape, and the shape by the record."""
    from kernel_matrix.job.sample import count_of

    name = record.case[:150]
    if count != count_of(shape):
        raise RefusedError(f"{output} of {name!r} has {count} samples, and its shape asks for another number")
    size = math.prod(shape)
    if record.metrics.get(f"{output}.elements", size) != size:
        raise RefusedError(f"{output} of {name!r} has another number of elements than in its record")


def _arrays(path: Path, bounds: Bounds) -> dict[str, bytes]:
    """Return the bytes of both arrays. Nothing larger than the bounds is unpacked, and nothing is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if sorted(entries) != sorted(_ARRAYS) or len(archive.infolist()) != len(_ARRAYS):
                raise RefusedError(f"it must hold {' and '.join(_ARRAYS)} and nothing else")
            for name, entry in entries.items():
                if entry.file_size > bounds.sample_bytes:
                    raise RefusedError(f"{name} has {entry.file_size} bytes, and {bounds.sample_bytes} is the most")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise RefusedError(f"{name} is packed in another way than results are")
            return {name: _content(archive.read(entry)) for name, entry in entries.items()}
    except _BROKEN_ZIP as error:
        raise RefusedError(f"it is not a whole npz file ({error})") from None


def _content(data: bytes) -> bytes:
    """Return the bytes of an array in NumPy's format.

    Raises:
        ValueError: it is no array of bytes, or not whole.
    """
    from numpy.lib import format as npy

    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another version of NumPy's format")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    content = data[stream.tell() :]
    if dtype != "uint8" or shape != (len(content),):
        raise ValueError("no array of bytes")
    return content


def _to_suite(job: str, records: Mapping[str, Record]) -> dict[str, Any]:
    return {"job": job, "cases": {name: _to_case(record) for name, record in records.items()}}


def _to_case(record: Record) -> dict[str, Any]:
    outputs = {
        output: {
            "dtype": sample.dtype,
            "shape": list(sample.shape),
            "sha256": sample.sha256,
            "count": len(sample.bits) // ITEM_BYTES[sample.dtype],
        }
        for output, sample in record.samples.items()
    }
    return {"inputs": record.facts.get("inputs.sha256", ""), "outputs": outputs}


def _suites(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records by the suite that they came in: each is a run."""
    suites: dict[str, list[Record]] = {}
    for record in records:
        suites.setdefault(record.run, []).append(record)
    return list(suites.values())


def _of_journal(content: Mapping[str, Any]) -> Sample:
    """Return the sample that a job wrote.

    Raises:
        ValueError: it has another form, or another number of elements than its shape asks for.
    """
    from kernel_matrix.job.sample import count_of

    entry = _JournalOutput.model_validate(content)
    bits = base64.b64decode(entry.bits, validate=True)
    if len(bits) != count_of(entry.shape) * ITEM_BYTES[entry.dtype]:
        raise ValueError("another number of elements than the shape asks for")
    return Sample(entry.dtype, tuple(entry.shape), entry.sha256, bits)
