"""Let the tests run at the same time in several processes of pytest-xdist.

The tests of one file stay in one process and share its fixtures (--dist loadfile). The files that take longest begin
first, so that the processes end at about the same time: ``--durations=0`` tells how long each test takes. A test
marked ``alone`` measures time, so that no other test runs at the same time. It stands in a file of such tests, which
comes last: it would wait for the longest test of all otherwise.
"""

from __future__ import annotations

import fcntl
import importlib
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

# The fixtures that need what a machine may lack or takes minutes to make; ``--quick`` goes without them.
NEEDS = {
    "environments": {"cpu_run"},
    "engine": {"engine", "contained", "own_engine"},
    "browser": {"chromium"},
    "slow": {"reported", "sent", "swept", "wheels", "workflow"},
    "nightly": {"faulty"},
}
# The files that take more than half a minute, in the order of their time.
LONGEST = (
    *("test_verify", "test_package", "test_nine_questions", "test_faults", "test_access"),
    *("test_container", "test_images", "test_suite", "test_tables", "test_launches", "test_machines"),
    *("test_cpu_platform", "test_launch_toolchains", "test_amd_emulator", "test_tvm_gpu", "test_diff", "test_judge"),
    *("test_act", "test_run", "test_docs_commands", "test_bench", "test_verify_candidates"),
    *("test_page_files", "test_query", "test_cheats", "test_cheats_by_files", "test_tables_run", "test_present"),
    *("test_harness_image", "test_scale", "test_everything", "test_launch_emulated", "test_compile_caches"),
    *("test_webgpu", "test_distributions", "test_serve", "test_report", "test_compare"),
    *("test_views", "test_gitlab", "test_slurm", "test_systemd", "test_buildkite", "test_without_gpu", "test_probes"),
    *("test_gfx_pseudocode", "test_jobs", "test_cli", "test_repro", "test_audit", "test_bench_cpu", "test_init"),
)
_LAST = len(LONGEST) + 2


def first_are_quick(count: int, values: Iterable[object]) -> list[object]:
    """Return the values of a test's parameter; ``--quick`` runs the first few, and the whole run all of them."""
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*value, marks=[pytest.mark.slow] if n >= count else []) for n, value in enumerate(several)]


def by_day(count: int, values: Iterable[object]) -> list[object]:
    """Return the values of a test's parameter; the night alone tries those behind the first few, which are siblings."""
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*value, marks=[pytest.mark.nightly] if n >= count else []) for n, value in enumerate(several)]


def arrange(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, and put the files in order: one process runs the whole of a file."""
    turns: dict[Path, int] = {}
    for item in items:
        for mark, fixtures in NEEDS.items():
            if fixtures & set(getattr(item, "fixturenames", ())):
                item.add_marker(mark)
        turns[item.path] = min(_order(item), turns.get(item.path, _LAST))
    items.sort(key=lambda item: turns[item.path])


def _order(item: pytest.Item) -> int:
    """Return the turn of a test: the longest files come first, then marked tests; ``alone`` waits for all others."""
    if item.get_closest_marker("alone"):
        return _LAST
    if item.path.stem in LONGEST:
        return LONGEST.index(item.path.stem)
    return len(LONGEST) + (not any(item.get_closest_marker(mark) for mark in NEEDS))


@contextmanager
def turn(config: pytest.Config, *, alone: bool) -> Iterator[None]:
    """Wait until a test may run: one that is ``alone`` when no other runs, and the others when none of these does."""
    worker = getattr(config, "workerinput", None)
    if worker is None:  # one process runs one test at a time
        yield
        return
    folder = Path(tempfile.gettempdir())
    gate, running = (folder / f"tests-{worker['testrunuid']}.{name}" for name in ("gate", "running"))
    with gate.open("a") as first, running.open("a") as second:
        # Who waits for the others holds the gate, so that no new test begins.
        fcntl.flock(first, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(second, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(first, fcntl.LOCK_UN)
        yield


def import_in_turns(config: pytest.Config, done: Path) -> None:
    """Import the test modules of a run, each process from another one on, unless the file ``done`` is there.

    The first to import a module writes its bytecode: pytest changes the assertions of 200 modules, which takes seven
    seconds. The processes share this work, and the others read what one has written.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or done.exists():
        return
    given = [Path(config.invocation_params.dir, argument.split("::")[0]) for argument in config.args]
    left_out = {*config.getini("norecursedirs")}
    modules = [path for each in given for path in (sorted(each.rglob("test_*.py")) if each.is_dir() else [each])
               if not left_out & {*path.relative_to(each).parts}]  # fmt: skip
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in modules[first:] + modules[:first]:
        with pytest.MonkeyPatch.context() as patch, suppress(Exception, pytest.skip.Exception):  # collecting says why
            patch.syspath_prepend(str(path.parent))
            importlib.import_module(path.stem)
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


def protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with its fixtures when it is its turn."""
    with turn(item.config, alone=item.get_closest_marker("alone") is not None):
        return (yield)
