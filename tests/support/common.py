"""Provide what the tests of the harness share."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import together
from docker import DockerClient
from hypothesis import settings
from judges import Found, compare

from kernel_matrix import cli
from kernel_matrix.config import load as loading
from kernel_matrix.config import plan as planning
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case, Job, Plan, plan
from kernel_matrix.config.suite import Listed
from kernel_matrix.job.budget import Pair, limits
from kernel_matrix.run.container.engine import connect
from kernel_matrix.run.environments import variables, venv
from kernel_matrix.run.executors import Request, UnavailableError
from kernel_matrix.run.job_command import BESIDE_OTHERS
from kernel_matrix.run.schedule import run
from kernel_matrix.run.settings import Settings
from kernel_matrix.store import names, write
from kernel_matrix.store.load import collect
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.vendor import Device

pytest_plugins = ("audited", "browsing", "repositories")


@pytest.fixture(autouse=True)
def _variables_stay() -> Iterator[None]:
    """Demand that no test changes a variable of this process for those that come after it."""
    before = _of_process()
    yield
    after = _of_process()
    os.environ.update(before)
    for name in after.keys() - before.keys():
        del os.environ[name]
    assert {name for name, _ in before.items() ^ after.items()} == set()


def _of_process() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def records_in(folder: Path, job: str = "") -> list[Record]:
    """Return the records of a job in a folder of results, or of all its jobs."""
    return list(collect(names.results_of(folder, job) if job else [folder]).records)


def write_results(folder: Path, records: Sequence[Record]) -> JobFiles:
    """Write the records of one job as tables."""
    return names.files_of(write.write(folder, records[0].job, records))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of all folders into their groups and order."""
    together.arrange(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Share the compilation of the modules. No garbage is looked for meanwhile: it takes a third of this time."""
    gc.disable()
    try:
        together.import_in_turns(session.config, ROOT / "build" / "cache" / "collected")
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Take the tests and the modules out of the collections of garbage to come: they stay until the end."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # what is frozen at the end looks like a leak to modules in C++


pytest_runtest_protocol = pytest.hookimpl(wrapper=True)(together.protocol)

ROOT = Path(__file__).parents[2]
# What Python and Inductor compile for the environments of the project, which the tests share as they share these.
BYTECODE = "cache/bytecode"
COPY = "harness"  # of what a job imports: Python keeps bytecode by the path of its source
SHARED = ("envs", BYTECODE, "cache/inductor", COPY)
# The processes that the tests start keep their bytecode, also where a machine says that none should be written. A
# process of a toolchain imports up to 2,000 modules, and compiling them takes three times as long as running them.
os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / "build" / BYTECODE)
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
os.environ.setdefault("PYTHONPATH", "src")  # of the processes that start in the repository, as nox says it

# How long an example takes depends on what else the machine does.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


@pytest.fixture(scope="session", autouse=True)
def project_is_loaded_once() -> Iterator[None]:
    """Read, check and plan the project's matrix.yaml once in a process: most commands begin with that."""
    load_file, make_plan, path = loading.load_and_plan, planning.plan, ROOT / "matrix.yaml"
    loaded: dict[bytes, loading.Checked] = {}
    plans: dict[tuple[int, Tier], Plan] = {}

    def load_once(given: Path, tests: Listed | None = None) -> loading.Checked:
        if given != path or tests:
            return load_file(given, tests)
        key = given.read_bytes()
        if key not in loaded:
            loaded[key] = load_file(given)
        return loaded[key]

    def plan_once(matrix: Matrix, tier: Tier) -> Plan:
        if not any(matrix is checked.matrix for checked in loaded.values()):  # a changed matrix has another plan
            return make_plan(matrix, tier)
        key = id(matrix), tier
        if key not in plans:
            plans[key] = make_plan(matrix, tier)
        return plans[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_and_plan", load_once)
        patch.setattr(planning, "plan", plan_once)
        yield


CPU = Device("cpu", "test", ("any",))
# The end of an expectation or exclusion of the doubles, as YAML: no version of NumPy ends it.
END = "owner: the tests, link: lock.txt, until: 'numpy>=99'"
RUN = (sys.executable, "-m", "kernel_matrix", "run")


def sh(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the repository, with the harness on Python's path."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def program(python: str | Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the environment of a toolchain, with the variables of a job that shares the machine.

    Inductor takes from its cache what jobs of the tests and other programs have compiled.
    """
    shared = {**BESIDE_OTHERS, "TORCHINDUCTOR_CACHE_DIR": str(ROOT / "build" / "cache" / "inductor")}
    return sh(str(python), *arguments, **{**shared, **environment})


def harness(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the harness in this process; return its outputs and its status as a process would."""
    output, errors = io.StringIO(), io.StringIO()
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    variables = dict(os.environ)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), contextlib.chdir(ROOT):
            status = cli.main(words)
    finally:
        for number, action in signals.items():
            signal.signal(number, action)
        os.environ.clear()
        os.environ.update(variables)
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())


def few_cases(whole: Plan) -> Plan:
    """Return a plan with all cells of another one, and of each cell its first three cases and those that are timed."""
    jobs = []
    for job in whole.jobs:
        places = Counter()
        cases = [case for case in job.cases if places.update([case.cell]) or case.timed or places[case.cell] <= 3]
        jobs.append(replace(job, cases=tuple(cases)))
    return replace(whole, jobs=tuple(jobs))


def few_cells(whole: Plan) -> Plan:
    """Return a plan of few cells, for what does not depend on how many there are.

    Of each toolchain of two platforms it has the first target and those that are timed.
    """
    kept: dict[tuple[str, str], set[str]] = {}
    jobs = [job for job in few_cases(whole).jobs if job.platform in ("cpu-llvm", "cuda")]
    for case in (case for job in jobs for case in job.cases):
        targets = kept.setdefault((case.cell.platform, case.cell.toolchain), set())
        if case.timed or not targets:
            targets.add(case.cell.target)
    jobs = [
        replace(job, cases=tuple(case for case in job.cases if case.cell.target in kept[job.platform, job.toolchain]))
        for job in jobs
    ]
    return replace(whole, jobs=tuple(job for job in jobs if job.cases))


def python_of(toolchain: str, platform: str = "cpu-llvm") -> Path:
    """Return the Python of a toolchain's environment of the project, which is made if it is not there."""
    (ROOT / "build" / "envs").mkdir(parents=True, exist_ok=True)
    job = Job(platform, toolchain, ())
    return Path(venv.prepare(Request(ROOT, ROOT / "build", load(ROOT / "matrix.yaml"), job, None, print)).python)


def environments_of(build: Path) -> Path:
    """Give a build folder the environments of the project and what is compiled for them; all tests share these."""
    return share(build, *SHARED)


def share(build: Path, *names: str) -> Path:
    """Give a build folder some folders of the project's own build folder."""
    for name in names:
        (ROOT / "build" / name).mkdir(parents=True, exist_ok=True)
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        if not (build / name).is_symlink():
            (build / name).symlink_to(ROOT / "build" / name)
    return build


class Silent:
    """Ignore all progress."""

    def job(self, job: str, text: str) -> None: ...

    def case(self, job: str, outcome: str) -> None: ...


@dataclass
class Doubles:
    """Hold a copy of the package of doubles, in its own folder."""

    root: Path

    @property
    def matrix(self) -> Matrix:
        return load(self.root / "matrix.yaml")

    def edit(self, old: str, new: str) -> None:
        path = self.root / "matrix.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def in_containers(self) -> None:
        """Give the platform the image of the project's environments, made from the doubles' own lock."""
        path = self.root / "matrix.yaml"
        compiled = ", PYTHONPYCACHEPREFIX: /opt/bytecode"  # in the image, since no container sees the tests' folder
        path.write_text(re.sub(", PYTHONPYCACHEPREFIX: [^ ]+", compiled, path.read_text()))
        self.edit("device: cpu", "device: cpu\n    container: containers/here/Dockerfile")
        shutil.copytree(ROOT / "containers" / "toolchains", self.root / "containers" / "toolchains")

    def run(self, *toolchains: str, executor: str = "current", device: Device = CPU, resume: bool = False) -> Found:
        if executor == "current":  # a container would not see the folder
            share(self.root / "build", COPY)
        planned = plan(self.matrix, "quick")
        jobs = [job for job in planned.jobs if job.toolchain in toolchains]
        settings = Settings(self.root, self.root / "build", executor, workers=2, resume=resume)
        files = run(self.matrix, jobs, Machine((device,)), settings, Silent())
        mine = type(planned)(planned.package, planned.tier, tuple(jobs))
        return compare(mine, collect(files).records)


def options(doubles: Doubles, *more: str) -> list[str]:
    return ["--matrix", str(doubles.root / "matrix.yaml"), *more]


@pytest.fixture(scope="session", autouse=True)
def no_plugins_in_jobs() -> None:
    """Keep the plugins of this environment's pytest out of jobs: importing Hypothesis is half of a small job's time."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    variables.SYSTEM += ("PYTEST_DISABLE_PLUGIN_AUTOLOAD",)


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what Python compiles of pytest and NumPy, which is the same for all tests and processes."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "bytecode"


def copy_doubles(folder: Path, bytecode: Path) -> Doubles:
    """Return a copy of the doubles. Each copy has its own build folder, and all share the compiled bytecode."""
    shutil.copytree(Path(__file__).parent / "doubles", folder)
    doubles = Doubles(folder)
    scratch = 'DOUBLES_SCRATCH: "{cache}/scratch"'
    doubles.edit(scratch, f"{scratch}, PYTHONPYCACHEPREFIX: {bytecode}")
    return doubles


@pytest.fixture
def doubles(tmp_path: Path, bytecode: Path) -> Doubles:
    return copy_doubles(tmp_path / "doubles", bytecode)


@pytest.fixture
def here(doubles: Doubles) -> Doubles:
    """Return the doubles on a target that this machine has, with time limits that fit a busy machine."""
    doubles.edit("case: 15,", "case: 60,")
    doubles.edit("targets: [any]", f"targets: [{detect().devices[0].targets[-1]}]")
    return doubles


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """Return the Docker engine of this machine; skip the test if there is none."""
    try:
        found = connect()
    except UnavailableError as reason:
        pytest.skip(f"needs a Docker engine: {reason}")
    yield found.client
    found.client.close()


@pytest.fixture
def contained(engine: DockerClient, doubles: Doubles) -> Doubles:
    """Return the doubles with an image for their platform."""
    doubles.in_containers()
    return doubles


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], None]]:
    """Return a function that mounts a disk of 160 MiB on a folder."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        folder.mkdir(parents=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"needs to mount a small disk: {done.stderr.strip()}")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """Return the project's own matrix.yaml, without limits of code, whose figures are made up in most tests."""
    return load(ROOT / "matrix.yaml").model_copy(update={"resources": []})


def figures_of(case: Case, **outputs: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a case that ran, is inside its budget, and carried canaries.

    ``outputs`` gives the figures of an output that differ from the usual ones.
    """
    assert set(outputs) <= set(case.owed.outputs or ("out",)), f"{case.id} has no such outputs: {', '.join(outputs)}"
    metrics = {"canary.injected": 6.0, "canary.caught": 6.0, "repeats": 3.0, "repeats_differing": 1.0}
    for output in case.owed.outputs or ("out",):
        figures = output_figures(case, **outputs.get(output, {}))
        metrics |= {f"{output}.{name}": value for name, value in figures.items()}
    return {"elements": sum(v for k, v in metrics.items() if k.endswith(".elements")), **metrics}


def job_of(case: Case) -> dict[str, str]:
    """Return the facts of a job that can run the case."""
    cell = case.cell
    place = {"platform": cell.platform, "toolchain": cell.toolchain}
    device = {"device": "a GPU", "device.vendor": cell.vendor, "device.targets": cell.target}
    return {**place, **device, "started": "2026-01-01T00:00:00Z", "version.torch": "2.13.0"}


def limits_of(figures: Mapping[str, float], owed: Owed) -> Pair:
    """Return the limits of one output, computed from its figures and matrix.yaml's ``accuracy``."""
    rules = owed.rules("")
    return limits(
        Pair(figures["floor_max_abs"], figures["floor_rel_fro"]),
        Pair(figures["conditioning_max_abs"], figures["conditioning_rel_fro"]),
        largest=figures["largest"],
        itemsize=int(figures["itemsize"]),
        steps=figures["steps"],
        factor=rules.factor,
        rounded=rules.rounded,
        ulps=rules.ulps,
        cap=rules.cap * figures["unit"],
    )


def output_figures(case: Case, **given: float) -> dict[str, float]:
    """Return the figures of one output, with those given, and the limits that follow from them by matrix.yaml."""
    noise = {"floor_max_abs": 2e-7, "floor_rel_fro": 2e-7, "conditioning_max_abs": 1e-7, "conditioning_rel_fro": 1e-7}
    figures = {"elements": 8.0, "nan": 0.0, "inf": 0.0, "max_abs": 1e-7, "rel_fro": 1e-7, **noise}
    figures |= {"unit": 1.0, "steps": 1.0, "largest": 1.0, "itemsize": 4.0, **given}
    made = limits_of(figures, case.owed)
    return {**figures, "limit_max_abs": made.max_abs, "limit_rel_fro": made.rel_fro}


@pytest.fixture(scope="session")
def passing() -> Callable[..., Record]:
    """Make the record of a case that ran and is inside its budget, or that compiled where nothing else is possible.

    Figures of outputs may be given, as in :func:`figures_of`.
    """

    def make(case: Case, **outputs: Mapping[str, float]) -> Record:
        if case.cell.action == "compile":
            artifact = {"metrics": {"artifact.bytes": 9.0}, "facts": {"artifact.kind": "cubin"}}
            return Record(case.id, "pass", "compile", job=job_of(case), **artifact)
        return Record(case.id, "pass", case.cell.action, metrics=figures_of(case, **outputs), job=job_of(case))

    return make


class OwnEngine:
    """Hold a Docker engine that a test may kill, because it has no containers of others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix://{folder / 'docker.sock'}"
        self.client: DockerClient | None = None
        self.start()

    def start(self) -> None:
        # In its own network namespace: an engine without a bridge removes the bridge of the machine's own engine.
        command = ["unshare", "--net", "dockerd", "--data-root", self.folder / "data"]
        command += ["--exec-root", self.folder / "exec"]
        command += ["--pidfile", self.folder / "pid", "--host", self.address, "--bridge", "none", "--iptables=false"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        give_up = time.monotonic() + 300
        while self.client is None:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(str(self.folder / "docker.sock"))
                self.client = DockerClient(self.address)
            except OSError:
                if self.process.poll() is not None or time.monotonic() > give_up:
                    self.process.kill()
                    self.process.wait()
                    reason = (self.folder / "log").read_text().splitlines()[-1]
                    pytest.skip(f"needs to start a Docker engine of its own: {reason}")
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill the engine as a crash does. Its containerd then ends by itself, and the containers continue."""
        containerd = Path("/proc", (self.folder / "exec" / "containerd" / "containerd.pid").read_text())
        self.process.kill()
        self.process.wait()
        self.client.close()
        self.client = None
        while containerd.exists():
            time.sleep(0.05)

    def mounts(self) -> list[str]:
        """Return what is mounted below the folder of the engine."""
        points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        return [point for point in points if point.startswith(f"{self.folder}/")]

    def stop(self) -> None:
        """End the engine and all that runs in it; a killed engine has left its containers running."""
        if self.client is None:
            self.start()
        for container in self.client.containers.list(all=True):
            container.remove(force=True)
        self.client.close()
        self.process.terminate()
        self.process.wait(300)


@pytest.fixture
def own_engine(engine: DockerClient) -> Iterator[OwnEngine]:
    """Start an empty engine and stop it at the end. Its folder has a short path, as a socket needs one."""
    if shutil.which("dockerd") is None or os.getuid():
        pytest.skip("needs dockerd and root, to start a Docker engine of its own")
    folder = Path(tempfile.mkdtemp(prefix="engine"))
    # In memory: what an engine writes it also waits for, so most of the test's time would be the disk's.
    in_memory = ["mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "tmpfs", str(folder)]
    mounted = subprocess.run(in_memory, capture_output=True, check=False).returncode == 0
    try:
        own = OwnEngine(folder)
        yield own
        own.stop()
        for point in reversed(own.mounts()):
            subprocess.run(["umount", point], check=True)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(folder)
