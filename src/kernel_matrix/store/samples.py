"""Samples of outputs, as a job's journal has them, and the checks of samples that a stranger sent."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from kernel_matrix.store.record import Record, Sample
from kernel_matrix.store.validation import RefusedError

ITEM_BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
_RAN = ("run", "emulate")

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


class _JournalOutput(_Model):
    dtype: Literal["fp64", "fp32", "fp16", "bf16"]
    shape: list[int]
    sha256: _Digest
    bits: str


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


def check(record: Record) -> None:
    """Check that the samples of a record are such as a job takes.

    Raises:
        RefusedError: they are not, or do not agree with the record.
    """
    if record.samples and record.action not in _RAN:
        raise RefusedError(f"it has samples of {record.case[:150]!r}, which did not run")
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


def _check_size(record: Record, output: str, shape: Sequence[int], count: int) -> None:
    """Check the number of samples of an output by its shape, and the shape by the record."""
    from kernel_matrix.job.sample import count_of

    name = record.case[:150]
    if count != count_of(shape):
        raise RefusedError(f"{output} of {name!r} has {count} samples, and its shape asks for another number")
    size = math.prod(shape)
    if record.metrics.get(f"{output}.elements", size) != size:
        raise RefusedError(f"{output} of {name!r} has another number of elements than in its record")


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
