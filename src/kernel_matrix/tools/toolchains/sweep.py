"""Try many versions of a package, several at a time, and keep the attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Lock

from packaging.version import Version

from kernel_matrix.probes.attempts import Attempt, Sweep
from kernel_matrix.tools.toolchains.subject import Subject
from kernel_matrix.tools.toolchains.try_version import try_version


def sweep(
    subject: Subject,
    versions: Iterable[Version],
    pairs: Mapping[str, Sequence[str]],
    workers: int,
    on_attempt: Callable[[Attempt], object] = lambda _: None,
) -> list[Attempt]:
    """Try every version with every combination of the pins in ``pairs``. Without pins the installer picks the rest.

    ``on_attempt`` is called with each attempt as it ends, one at a time.
    """
    combinations = [dict(zip(pairs, values, strict=True)) for values in product(*pairs.values())]
    work = [(str(version), pins) for version in versions for pins in combinations]
    lock = Lock()

    def attempt_one(version_and_pins: tuple[str, Mapping[str, str]]) -> Attempt:
        attempt = try_version(subject, *version_and_pins)
        with lock:
            on_attempt(attempt)
        return attempt

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(attempt_one, work))


def as_sweep(subject: Subject, attempts: Sequence[Attempt], devices: Sequence[str] | None = None) -> Sweep:
    """Return the attempts as a file keeps them; ``devices`` are another machine's."""
    here = [device.name for device in subject.machine.devices]
    return Sweep(
        package=subject.package,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        machine=here if devices is None else list(devices),
        toolchain=subject.toolchain or "" if subject.is_axis else "",
        case=", ".join(subject.cases) or None,
        probes=[probe.id for probe in subject.probes],
        attempts=list(attempts),
    )
