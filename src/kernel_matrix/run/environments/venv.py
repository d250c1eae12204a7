"""The executor ``venv``: an isolated environment made from the toolchain's lock file by uv, once per content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernel_matrix.base import installation
from kernel_matrix.base.locking import locked
from kernel_matrix.base.wheels import wheels_of
from kernel_matrix.config import locks
from kernel_matrix.config.lock_faults import overwritten
from kernel_matrix.config.model import Installer
from kernel_matrix.run.container import places
from kernel_matrix.run.environments import uv_settings
from kernel_matrix.run.environments.builds import chosen_build, pin_of
from kernel_matrix.run.environments.built import SHELL, Build
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import InstallError, Interpreter, Prepare, Request
from kernel_matrix.vendors import builds

_INSTALLERS = ("PIP_", "UV_", "CCACHE_")  # how the names of variables begin that commands of a build may need
_CODE = (".py", ".pth", ".so")


@contextmanager
def executor() -> Iterator[Prepare]:
    """Give every toolchain the environment of its lock file."""
    yield prepare


def prepare(request: Request) -> Interpreter:
    """Make the environment, or take the one that was made from the same lock; build the package if it is built.

    Raises:
        InstallError: the words of uv or of the build.
    """
    if request.matrix.package.build_commands:
        return _built(Build.of(request, "venv"))
    lock = request.lock
    if python := of_image(lock, request.kind):
        return LocalInterpreter(python)
    machine = "gpu" if request.gpu else "cpu"
    version = ".".join(str(part) for part in sys.version_info[:3])
    key = hashlib.sha256(f"{request.kind} {version} {lock.read_text(encoding='utf-8')}".encode()).hexdigest()[:10]
    # Several build folders may share one folder of environments by a link: bytecode is kept by the resolved path.
    folder = (request.build / "envs").resolve() / f"{lock.stem}-{machine}-{key}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        demand_unchanged(folder)
        return LocalInterpreter(python)
    with locked(folder.with_name(f"{folder.name}.lock"), wait=True):  # another run may be making it
        if not complete.exists():
            _make(request, folder)
            complete.write_text(state_of(folder))
    return LocalInterpreter(python)


def of_image(lock: Path, kind: str) -> Path | None:
    """Return the Python of the environment that the image around this process has, if it is of this lock and kind.

    One that this user can change is not taken: a kernel could leave a file there for the next job.
    """
    python = Path(places.python_of(lock))
    folder = python.parents[1]
    try:
        is_same = (folder / places.MADE_FROM).read_text(
            encoding="utf-8"
        ) == f"{kind}\n{lock.read_text(encoding='utf-8')}"
    except OSError:
        return None
    return python if is_same and not os.access(folder, os.W_OK) else None


def _make(request: Request, folder: Path) -> None:
    """Make the environment of the request's lock in the folder."""
    lock, python = request.lock, folder / "bin" / "python"
    request.say(f"making the environment of {lock.name}")
    shutil.rmtree(folder, ignore_errors=True)
    uv("venv", "--python", sys.executable, "--no-project", str(folder))
    install(request.matrix.installer, python, lock, request.kind)
    share_bytecode(folder, request.build / "cache" / "bytecode")


def _built(build: Build) -> Interpreter:
    """Return the interpreter of an environment in which the package was built, or is built now."""
    folder = build.place / "env"
    python = folder / "bin" / "python"

    def make() -> str:
        _make(build.request, folder)
        here = LocalInterpreter(python, inherits=tuple(name for name in os.environ if name.startswith(_INSTALLERS)))
        path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        variables = {**build.variables(str(build.request.build / "cache")), "PATH": path, "VIRTUAL_ENV": str(folder)}
        build.run(lambda command: here.start(["-c", SHELL, command], variables, build.root, build.log))
        return state_of(folder, build.root)

    if build.once(make) != state_of(folder, build.root):
        raise InstallError(f"code in {build.place} was changed since it was built. Remove the folder, and run again")
    return LocalInterpreter(python, root=build.root)


def demand_unchanged(folder: Path) -> None:
    """Check that an environment has the code that was installed: a kernel could have left a file for the next job.

    Raises:
        InstallError: it has not.
    """
    state, made = state_of(folder), folder / "complete"
    if not (known := made.read_text()):  # an earlier version of the harness made it
        made.write_text(state)
    elif known != state:
        raise InstallError(f"code in {folder} was changed since it was installed. Remove the folder, and run again")


def state_of(folder: Path, *sources: Path) -> str:
    """Return a hash of the names, sizes and times of the files of an environment that Python reads as code.

    ``sources`` are further folders whose code counts too.
    """
    state = hashlib.sha256()
    for packages in (*sorted(folder.glob("lib/python*/site-packages")), *sources):
        for place, folders, files in os.walk(packages):
            folders[:] = sorted(name for name in folders if name != "__pycache__")  # bytecode is kept elsewhere
            for name in sorted(name for name in files if name.endswith(_CODE)):
                status = Path(place, name).lstat()
                state.update(f"{place} {name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()


def install(installer: Installer, python: Path, lock: Path, kind: str = builds.CPU) -> None:
    """Install a lock with its builds for this kind of machine, and nothing that would write over another.

    Raises:
        InstallError: it cannot be installed so; uv's words.
    """
    pins = locks.pins(lock)
    if clash := overwritten(pins, kind):
        raise InstallError(f"{lock.name} cannot be installed for {kind}: {clash}")
    # uv takes a wheel with a local version, such as +cpu, before the one of an index.
    foreign = [one for one in wheels_of(builds.distribution()) if builds.is_of_another(one[1], kind)]
    words = []
    with tempfile.TemporaryDirectory() as folder:
        if foreign:
            words += ["--constraints", f"{folder}/constraints.txt"]
            Path(words[-1]).write_text("".join(f"{name}!={found}\n" for name, found in foreign), encoding="utf-8")
        if builds.excluded(pins):
            words += ["--excludes", f"{folder}/excludes.txt"]
            Path(words[-1]).write_text("triton\n", encoding="utf-8")
        variables = variables_for(installer, python, lock, kind, words)
        uv("pip", "install", "--python", str(python), *words, "-r", str(lock), variables=variables)


def variables_for(
    installer: Installer, python: Path, lock: Path, kind: str = builds.CPU, words: Sequence[str] = ()
) -> Mapping[str, str]:
    """Return the variables that make uv install the build for this kind of machine.

    None are needed where the lock does not name the distribution that has several builds, nor where a configured folder
    of wheels has one that fits. ``words`` are further options of uv.
    """
    if not (variables := chosen_build(installer, lock.read_text(encoding="utf-8"), kind)):
        return {}
    pin = filter(None, [pin_of(installer, lock.read_text(encoding="utf-8"))])
    try:
        # With these options uv also refuses a cached wheel of another index, as it should here.
        uv("pip", "install", "--python", str(python), *words, "--no-index", "--no-deps", "--dry-run", *pin)
    except InstallError:
        return variables
    return {}


def uv(*arguments: str, variables: Mapping[str, str | None] | None = None) -> str:
    """Run uv with pip's settings, so that both install the same wheels on the same machine, and return its output.

    The project in whose folder it is called says where distributions are, and not which versions. Of the further
    ``variables`` one that is None is taken away.

    Raises:
        InstallError: it failed; uv's own words.
    """
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise InstallError("uv is neither in this interpreter's folder nor on PATH. Install it: pip install uv")
    given = {**os.environ, **(variables or {})}
    environment = {name: value for name, value in given.items() if value is not None}
    environment |= {name: value for name, (_, value) in installation.settings_of_pip(environment).items()}
    with tempfile.TemporaryDirectory() as folder:
        words = [*arguments]
        if words[0] == "pip":
            Path(folder, "uv.toml").write_text(uv_settings.of_indexes(Path.cwd()), encoding="utf-8")
            words[2:2] = ["--project", folder]
        process = subprocess.run([program, *words], capture_output=True, text=True, env=environment, check=False)
    if process.returncode:
        assignments = "".join(f"{name}={value} " for name, value in (variables or {}).items() if value is not None)
        raise InstallError(f"$ {assignments}uv {' '.join(arguments)}\n{process.stderr.strip()}")
    return process.stdout + process.stderr


def share_bytecode(environment: Path, bytecode: Path) -> None:
    """Link the places of an environment's packages below ``bytecode`` to places that equal packages have in common.

    ``bytecode`` is the PYTHONPYCACHEPREFIX of the processes that will import them. Python still compares the time and
    size of each source with those that its bytecode names. A place that has bytecode already is left as it is.
    """
    for packages in environment.glob("lib/python*/site-packages"):
        own = bytecode / packages.relative_to(packages.anchor)
        own.mkdir(parents=True, exist_ok=True)
        for name, identity in _linked_packages(packages):
            common = bytecode / "common" / f"{name}-{identity}"
            common.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # made before, perhaps by another run just now
                (own / name).symlink_to(common)


def _linked_packages(packages: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each package whose files other environments may have too, and what identifies the files."""
    for initial in sorted(packages.glob("*/__init__.py")):
        status = initial.stat()
        if status.st_nlink > 1:  # else it is a copy, which has its own time
            yield initial.parent.name, f"{status.st_ino}-{status.st_mtime_ns}"
