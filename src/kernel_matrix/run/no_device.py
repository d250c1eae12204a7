"""The record of a test that has ended because no GPU is here -> unavailable, as the record of one that skips itself."""

from __future__ import annotations

import re
from dataclasses import replace

from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import Rule, says_no_device
from kernel_matrix.job.test_names import FAULTS
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.registry import vendor_named

# Stages: no signal and no limit ended the test. What a build lacks is the compiler more often than the device.
_ENDED_BY_ITSELF = ("", "import", "lower", "compile", "launch")
_CAPTURED = re.compile(r"^-+ Captured .+ -+$", re.MULTILINE)  # below it is what the test printed
# What pytest shows of an exception: the line that raised it, where its source is there, and its text.
_RAISED = re.compile(r"(?:^(?:>| {3,}).*\n)?(?:^E(?:  .*)?(?:\n|\Z))+", re.MULTILINE)


def has_device(matrix: Matrix, platform: str) -> bool:
    """Return whether the lanes of a platform have a device that programs for GPUs may ask for."""
    return not vendor_named(matrix.platforms[platform].device).hosted


def as_unavailable(record: Record, rules: tuple[Rule, ...]) -> Record:
    """Return the record of a test that ran on a lane without a device: unavailable, if all that it raised says so."""
    if record.outcome not in ("fail", "error") or record.stage not in _ENDED_BY_ITSELF:
        return record
    if not all(says_no_device(text, record.stage, rules) for text in _raised(record)):
        return record
    message = f"it needs a GPU, or a device of its kind, and this lane has none: {record.message}"
    return replace(record, outcome="unavailable", stage="", message=message)


def _raised(record: Record) -> list[str]:
    """Return what ended a test: each of its faults, where it has several, and the last exception otherwise."""
    shown = [match[0] for text in _CAPTURED.split(record.detail)[:1] for match in _RAISED.finditer(text)]
    if FAULTS in record.facts:
        return shown or [""]
    return [f"{record.message}\n{shown[-1] if shown else ''}"]
