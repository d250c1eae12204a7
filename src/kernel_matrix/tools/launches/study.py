"""Record a program once for each vendor, compile what it launches for every target, and make the dashboard of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.matrix.dashboard import Dashboard, write_dashboard
from kernel_matrix.results.states import Verdict
from kernel_matrix.tools.launches import emulated, matrix_file, sources, words
from kernel_matrix.tools.launches.invocation import Invocation, invocation
from kernel_matrix.tools.launches.naming import package_of
from kernel_matrix.tools.launches.recording import Options, Recording, record
from kernel_matrix.tools.launches.records import write_records
from kernel_matrix.tools.launches.targets import Target, told


@dataclass(frozen=True)
class Study:
    """The recorded launches, and the dashboard of those that were compiled."""

    recordings: tuple[Recording, ...]
    dashboard: Dashboard
    page: Path
    verdicts: tuple[Verdict, ...]

    @property
    def exit_status(self) -> int:
        """1 if a case is red, a launch was to be compared and was not, or the program did not end well for some vendor.

        Else it is as the dashboard says.
        """
        is_bad = bool(self.not_compared) or any(recording.fault for recording in self.recordings)
        return max(self.dashboard.exit_status, int(is_bad))

    @property
    def not_compared(self) -> int:
        """The number of launches that ran on an emulated target without a finding, and were compared with nothing."""
        ran = (one for recording in self.recordings for one in recording.compiled if not (one.stage or one.findings))
        return sum(bool(one.without) for one in ran)


def study(
    program: Sequence[str],
    targets: Sequence[Target],
    told_names: Sequence[str],
    options: Options,
    folder: Path,
    package: str,
    say: Callable[[str], None],
) -> Study:
    """Do all of it, with everything below ``folder``.

    Raises:
        UserError: the program cannot be started, it launches nothing for any vendor, or another study is in the folder.
    """
    try:
        with locked(folder.with_name(f"{folder.name}.lock")):
            return _study(program, targets, told_names, options, folder, package, say)
    except BusyError:
        text = "another run of launches is at it. Wait for its end, or give --build FOLDER."
        raise UserError(f"{folder}: {text}") from None


def _study(
    program: Sequence[str],
    targets: Sequence[Target],
    told_names: Sequence[str],
    options: Options,
    folder: Path,
    package: str,
    say: Callable[[str], None],
) -> Study:
    call, started = _invocation(program, options), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if options.emulate or options.card:
        options = replace(options, emulator=emulated.emulator_for(call, options.emulate, options.simulator))
    recordings = []
    for vendor, device in told(told_names, targets).items():
        say(f"{call.text}, told that it runs on {device.name} ({device.facts['device']})")
        of_vendor = [target for target in targets if target.vendor.name == vendor]
        of_program = folder / "recorded" / vendor
        recordings.append(emulated.compared(record(call, device, of_vendor, options, of_program), of_program))
    recordings = sources.by_kernel(recordings)
    shown = [recording for recording in recordings if recording.taken or recording.fault]
    if not any(recording.taken for recording in shown):
        reasons = "; ".join(f"{one.told.name}: {one.fault or 'nothing was launched'}" for one in recordings)
        raise UserError(f"{call.text}: there is nothing to compile. {reasons}. Look at its output above.")
    names = matrix_file.names_of(shown)
    package = package or package_of(shown)[0]
    project = pipeline.load(matrix_file.write(folder, shown, names, package), folder)
    plan = pipeline.plan(project, "full")
    write_records(project, plan, shown, names, started, program)
    page = folder / "launches.md"
    with judging.judged(project, plan, [project.results]) as judged:
        dashboard, verdicts = write_dashboard(project, judged), judged.verdicts()
    for line in [words.sample_of(options), *(line for one in recordings for line in words.recorded_lines(one))]:
        say(line)
    for line in words.cell_lines(verdicts):
        say(line)
    write_atomically(page, words.page(recordings, verdicts, options, call.text, package))
    return Study(tuple(recordings), dashboard, page, tuple(verdicts))


def _invocation(program: Sequence[str], options: Options) -> Invocation:
    """Return how the program is started; where there are commands of nvcc and no program, one that does nothing."""
    if options.commands and not program:
        return Invocation(sys.executable, (), ("-c", "", *map(str, options.commands)))
    return invocation(program)
