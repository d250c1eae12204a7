"""The checks, the probing and the toolchain view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_matrix import plugins
from kernel_matrix.config.model import Tier
from kernel_matrix.matrix.kept import Keeper
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine

View = Callable[[Project, Sequence[Record]], Toolchains]


def toolchain_view(project: Project, records: Sequence[Record]) -> Toolchains:
    """Return the report's part about toolchains; an empty one for a package without probes."""
    if project.matrix.package.probes is None:
        return Toolchains()
    view: View = plugins.part("toolchain_view")
    return view(project, records)


def checks_of(project: Project) -> tuple[Check, ...]:
    """Return the checks: those in the build folder, then the ones that the package keeps.

    Raises:
        UserError: a file cannot be used.
    """
    kept = project.matrix.package.checks
    return checks.read(project.build / checks.FOLDER, *([project.root / kept] if kept else ()))


def probing(
    project: Project,
    toolchains: Sequence[str],
    machine: Machine,
    executor: str,
    say: Callable[[str], None],
    keeper: Keeper | None = None,
    *,
    tier: Tier = "full",
) -> list[Callable[[], None]]:
    """Return the work of probing these toolchains; none for a package without probes."""
    if project.matrix.package.probes is None:
        return []
    work: Callable[..., list[Callable[[], None]]] = plugins.part("probing")
    return work(project, toolchains, machine, executor, say, keeper, tier=tier)
