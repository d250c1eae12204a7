"""Make the files that a repository needs: matrix.yaml, the lock, the Dockerfiles, the workflow."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix.adopt import describe, lock, platforms, reach, requirements
from kernel_matrix.adopt.pinned.repository import Pins
from kernel_matrix.adopt.recognize import Recognized
from kernel_matrix.adopt.repository import TOOLCHAINS, Repository
from kernel_matrix.adopt.sources import OWN
from kernel_matrix.base import git, installation
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import counted
from kernel_matrix.config.locks import pins_in
from kernel_matrix.vendors import builds
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named

LOCKS, _CONTAINERS = f"{OWN}/locks", f"{OWN}/containers"
WORKFLOW = ".github/workflows/kernel-matrix.yml"
_VARIABLES = {
    "Triton": "TRITON_INTERPRET",
    "Pallas": "KERNEL_MATRIX_PALLAS_INTERPRET",
    "Numba": "NUMBA_ENABLE_CUDASIM",
}
# A variable that a file sets as it is imported, for JAX, which reads it as it is imported itself.
_OF_JAX = re.compile(
    r"""^(?:os\.)?environ(?:\[|\.setdefault\()\s*["']((?:JAX|XLA)_\w+)["']\s*(?:\]\s*=|,)\s*["']([^"'\\\n]*)["']""",
    re.M,
)
_RULES = "/build/\n__pycache__/\n"  # Numba's caches lie among the bytecode, and would count as sources
_HOSTED = "x86-64-v3"  # what GitHub's machines have
_ENVIRONMENT = Environment(  # noqa: S701 - these are no pages: YAML and Dockerfiles have no HTML to escape
    loader=PackageLoader("kernel_matrix.adopt"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


class Proposal(NamedTuple):
    """The name of the toolchain, the files by their path in the repository, and what is to be said of the locks."""

    toolchain: str
    files: dict[str, str]
    notes: tuple[str, ...]


_STATUS = '# For merging, require the status of the job "matrix": it always runs, and it is red where a test is.'
_NO_STATUS = (
    '# Do not require the status of the job "matrix" yet: no test that init tried ran without a GPU. Where none runs, '
    "the job is red."
)


def demand_no_status(root: Path, files: Mapping[str, str]) -> None:
    """Change what the workflow says of its status, where nobody else wrote the file."""
    path, text = root / WORKFLOW, files.get(WORKFLOW, "")
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        path.write_text(text.replace(_STATUS, _NO_STATUS), encoding="utf-8")


class Lane(NamedTuple):
    """One way of the tests on a CPU: its toolchain, its variables, and whose kernels run in an interpreter."""

    toolchain: str
    variables: Mapping[str, str]
    interpreted: tuple[str, ...]

    @property
    def environment(self) -> str:
        """The variables as matrix.yaml has them."""
        return ", ".join(f'{name}: "{value}"' for name, value in self.variables.items())


def propose(
    repository: Repository, machine: Machine, pins: Pins = lock.NO_PINS, operators: Sequence[Recognized] = ()
) -> Proposal:
    """Return the files that a repository needs. Only the locks need the network.

    ``pins`` are what the repository pins: the locks keep each that goes with the rest. Of ``operators`` descriptions
    are proposed.

    Raises:
        UserError: the requirements cannot be resolved.
    """
    without: list[str] = []
    notes: list[str] = []
    while True:
        lines = requirements.lines(repository, without)
        try:
            made = _with_lines(repository, machine, pins, operators, lines)
        except UserError as error:
            needed = requirements.lines(repository, lines)
            optional = [line for line in lines if line not in needed and not line.startswith("#")]
            if not optional:
                raise lock.with_remedy(UserError(f"{error}{_whose(lines, str(error))}")) from None
            blamed = [line for line in optional if re.search(rf"\b{re.escape(Requirement(line).name)}\b", str(error))]
            without += blamed or optional
            notes.append(f"without what tests ask for and do without ({', '.join(blamed or optional)}): {error}")
        else:
            return made._replace(notes=(*notes, *made.notes))


def _whose(lines: Sequence[str], fault: str) -> str:
    """Return which list of the repository asks for what a fault names; else nothing."""
    origin, found = "", dict[str, list[str]]()
    for line in lines:
        if line.startswith("#"):
            origin = line.removeprefix("# ").partition(";")[0]
        elif origin != requirements.OF_JOBS and re.search(
            rf"(?<![\w.-]){re.escape(Requirement(line).name)}(?![\w-])", fault
        ):
            found.setdefault(origin, []).append(line)
    named = "; ".join(f"{origin} ({', '.join(texts)})" for origin, texts in found.items())
    return f" Asked for by {named}." if named else ""


def _with_lines(
    repository: Repository, machine: Machine, pins: Pins, operators: Sequence[Recognized], lines: Sequence[str]
) -> Proposal:
    """Return the files for these lines of requirements.

    Raises:
        UserError: they cannot be resolved.
    """
    toolchain = _toolchain(repository, lines)
    source = "\n".join(lines) + "\n"
    found = reach.reached(repository)
    gpus = platforms.of(repository, found.there)
    kinds = [vendor_named(one.device).build for one in gpus if vendor_named(one.device).gpu]
    made = _lock(source, toolchain, [*kinds, builds.CPU], repository.python, pins)
    own = _own_environments(lines, toolchain, gpus, repository.python, pins)
    lanes = _lanes(repository, toolchain, found)
    names = _names(repository, machine, made, gpus, own, found, lanes)
    files = {f"{LOCKS}/{toolchain}.in": source, **made.names(f"{LOCKS}/{toolchain}.txt")}
    for texts in own.values():
        files |= texts
    if repository.suite is not None:
        files |= _beside_the_lock(names)
    if operators:
        files |= _of_operators(repository, operators, names)
    asked = requirements.asked_for(repository, {name for text in made.texts.values() for name in pins_in(text)})
    said = (
        (*_said_of_needs(asked, toolchain), *_said(lanes, names["unreached"])) if repository.suite is not None else ()
    )
    return Proposal(toolchain, files, (*made.notes, *requirements.against_a_job(repository), *said))


def _names(
    repository: Repository,
    machine: Machine,
    made: lock.Locks,
    gpus: Sequence[Any],
    own: Collection[str],
    found: reach.Reached,
    lanes: Sequence[Lane],
) -> dict[str, Any]:
    """Return what the templates use."""
    toolchain = lanes[0].toolchain
    versions = {name for text in made.texts.values() for name in pins_in(text)}
    return {
        "repository": repository,
        "toolchain": toolchain,
        "locks": LOCKS,
        "folder": _CONTAINERS,
        "operators": describe.FOLDER,
        "titles": [TOOLCHAINS[name] for name in repository.toolchains],
        "target": _target(machine),
        "distributions": [name for name in _distributions(repository) if name in versions],
        "lanes": lanes,
        "status": _STATUS,
        "unreached": sorted(found.there - found.kernels),
        "gpus": gpus,
        "simulated": [lane.toolchain for lane in lanes[1:]],
        "own": {name: platforms.toolchain(toolchain, name) for name in own},
        "kinds": sorted(kind for kind in made.texts if kind),
        "containers": repository.python == lock.OLDEST_PYTHON,  # the Python of the images
        "branch": git.main_branch(repository.root),
        "requirement": installation.requirement(),
    }


def _of_operators(repository: Repository, operators: Sequence[Recognized], names: Mapping[str, Any]) -> dict[str, str]:
    """Return the proposed descriptions, and the matrix of their own."""
    matrix = _text("matrix.yaml", {**names, "described": describe.described(operators)})
    return {**describe.files(repository, operators), describe.MATRIX: matrix}


def _beside_the_lock(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that run the tests. matrix.yaml comes last, so that all that it names is there."""
    files = {WORKFLOW: _text("workflow.yml", names), ".gitignore": _RULES}
    if names["containers"]:
        files[f"{_CONTAINERS}/toolchains/Dockerfile"] = _text("toolchains.Dockerfile", names)
        files[f"{_CONTAINERS}/toolchains/make-environments"] = _text("make-environments", names)
        for platform in ("cpu", *(one.name for one in names["gpus"] if one.container)):
            values = {**names, "platform": platform}
            files[f"{_CONTAINERS}/{platform}/Dockerfile"] = _text("platform.Dockerfile", values)
    return {**files, "matrix.yaml": _text("matrix.yaml", names)}


def _toolchain(repository: Repository, lines: Sequence[str]) -> str:
    """Return the name of the environment: the first toolchain that is in it, or ``python``."""
    needed = {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")}
    return next((name for name in repository.toolchains if {*_named(name)} & needed), "python")


def _named(module: str) -> tuple[str, ...]:
    """Return the names of the distributions that can have the module of a toolchain."""
    return (module, f"apache-{module}", requirements.distribution_of(module))


def _own_environments(
    lines: Sequence[str], toolchain: str, gpus: Sequence[platforms.Platform], python: str, pins: Pins
) -> dict[str, dict[str, str]]:
    """Return the files of the locks of platforms that need other builds of a distribution, by platform."""
    found = {}
    for one in gpus:
        text = platforms.with_extra(lines, one.name)
        if text is not None:
            name = platforms.toolchain(toolchain, one.name)
            made = _lock(text, name, [vendor_named(one.device).build or builds.CPU], python, pins)
            found[one.name] = {f"{LOCKS}/{name}.in": text, **made.names(f"{LOCKS}/{name}.txt")}
    return found


def _lock(text: str, toolchain: str, kinds: Sequence[str], python: str, pins: Pins) -> lock.Locks:
    """Return the locks that uv makes from requirements, for the Pythons of the package."""
    pythons = [one for one in lock.PYTHONS if Version(one) >= Version(python)] or [python]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, f"{toolchain}.in")
        source.write_text(text, encoding="utf-8")
        return lock.resolve(source, kinds, pythons=pythons, pins=pins)


def _distributions(repository: Repository) -> list[str]:
    """Return the distributions whose versions people look for in a report of this repository."""
    own = {canonicalize_name(requirements.distribution_of(name)) for name in (*repository.toolchains, "numpy")}
    return sorted(own | {"torch" if name == "triton" else name for name in own})


def _lanes(repository: Repository, toolchain: str, found: reach.Reached) -> tuple[Lane, ...]:
    """Return the lanes of the tests on a CPU. What an interpreter runs and what runs natively are two, if it can be.

    Without its simulator, Numba's kernels need a GPU and its other code does not. So the tests run once each way.
    """
    both = "Numba" in found.kernels & found.native
    alone = sorted(found.kernels - ({"Numba"} if both else set()))
    variables = {_VARIABLES[name]: "1" for name in alone} | _on_a_cpu(repository, found)
    lanes = [Lane(toolchain, variables, tuple(alone))]
    if both:
        told = {_VARIABLES["Numba"]: "1", **variables}
        lanes.append(Lane(f"{toolchain}-simulator", told, (*alone, "Numba")))
    return tuple(lanes)


def _said_of_needs(asked: Mapping[str, int], toolchain: str) -> Iterator[str]:
    """Yield what a terminal says of what tests ask for, and the environment has not."""
    if asked:
        named = ", ".join(f"{name} ({counted(count, 'file')})" for name, count in sorted(asked.items()))
        yield (
            f"tests ask for these, do without, and no list of the repository names them: {named}. Tests that need "
            f"one are skipped: write its distribution into {LOCKS}/{toolchain}.in, and then `kernel-matrix lock`"
        )


def _said(lanes: Sequence[Lane], unreached: Sequence[str]) -> Iterator[str]:
    """Yield what a terminal says of the lanes of a CPU."""
    if unreached:
        yield f"no test launches the kernels in {' and '.join(unreached)} without a GPU, as far as the sources say"
    if len(lanes) > 1:
        yield (
            "tests reach both Numba's code for a CPU and its kernels, and which does which is not known: they run "
            f"natively in the lane {lanes[0].toolchain}, and with the simulator in {lanes[1].toolchain}"
        )
    elif lanes[0].interpreted:
        yield (
            f"kernels in {' and '.join(lanes[0].interpreted)} run in an interpreter on the CPU. Which tests launch one "
            "is not known, so all are called emulated there"
        )


def _on_a_cpu(repository: Repository, found: reach.Reached) -> dict[str, str]:
    """Return the variables of the tests on a CPU beside those of interpreters: JAX's, and the targets of a build."""
    variables: dict[str, str] = {}
    if "Pallas" in found.kernels:  # its interpreter has imported JAX before any test is read
        files = sorted((one.path for one in repository.tests), key=lambda path: (path.name != "conftest.py", path))
        pairs = [pair for path in files for pair in _OF_JAX.findall(path.read_text(encoding="utf-8", errors="replace"))]
        variables |= dict(reversed(pairs))  # the first that is read holds for all
    if repository.cuda and repository.project.compiled.commands:
        told = vendor_named("nvidia").build_variables((platforms.CUDA.target,))
        variables |= {name: told[name] for name in ("CUDAARCHS", "TORCH_CUDA_ARCH_LIST")}
    return variables


def _target(machine: Machine) -> str:
    """Return the target of the CPU: GitHub's machines' target if this machine has it, else its own best."""
    targets = [target for device in machine.devices if not vendor_named(device.vendor).gpu for target in device.targets]
    return _HOSTED if _HOSTED in targets or not targets else targets[-1]


def _text(template: str, names: Mapping[str, object]) -> str:
    return _ENVIRONMENT.get_template(f"{template}.j2").render({"described": [], **names}).rstrip("\n") + "\n"
