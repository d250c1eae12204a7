"""Hold what a record says of its job to the case that it names: the job must have been able to run that case."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_matrix.config.plan import Case
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.registry import vendor_named


def misplaced(case: Case, record: Record) -> str:
    """Return why the job of a record that ran or was emulated cannot have run the case; empty if it can."""
    return next(_faults(case, record), "")


def _faults(case: Case, record: Record) -> Iterator[str]:
    cell, job = case.cell, record.job
    stood_in = (cell.action, record.action) == ("run", "emulate") and (
        cell.target in vendor_named(cell.vendor).stood_in_for
    )
    if record.action != cell.action and not stood_in:
        done = {"run": "it ran", "emulate": "it was emulated"}[record.action]
        yield f"the record says that {done}; by matrix.yaml the action of this toolchain here is '{cell.action}'"
    for name, wanted in (("platform", cell.platform), ("toolchain", cell.toolchain), ("device.vendor", cell.vendor)):
        if (given := job.get(name, "")) != wanted:
            yield f"its job has the {name} {given[:40] or '(none)'}; this case has {wanted}"
    if cell.target not in job.get("device.targets", "").split():
        yield f"the device of its job runs {job.get('device.targets', '')[:80] or 'no target'}; not {cell.target}"
