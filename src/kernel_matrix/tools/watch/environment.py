"""The distributions that are watched: which versions there are now, and each installed into a folder of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from kernel_matrix.base.errors import UserError
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.tools.launches.versions import installed
from kernel_matrix.tools.watch.plan import Package, Plan

NEEDED = ("torch", "numpy")  # what the Python of the programs has to have
_PINNED = re.compile(r"(?m)^([\w.-]+)==(\S+)")
_ASK = (
    "import importlib.metadata as m, sys; print('python', *sys.version_info[:2]);"
    "[print(one.metadata['Name'], one.version) for one in m.distributions()]"
)


def resolved(python: str, plan: Plan) -> dict[str, str]:
    """Return the version of each distribution that has none in the plan, as it is published today; one resolve for all.

    Raises:
        UserError: one of them cannot be found.
    """
    wanted = {name for name, one in plan.packages.items() if not one.version and not one.path}
    wanted |= {one for package in plan.packages.values() for one in package.requires if "==" not in one}
    wanted |= {"triton"} if "newest" in plan.triton else set()
    if not wanted:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "wanted.txt")
        file.write_text("".join(f"{name}\n" for name in sorted(wanted)), encoding="utf-8")
        words = ("--no-deps", "--no-header", "--no-annotate", "--python", python, str(file))
        try:
            found = dict(_PINNED.findall(uv("pip", "compile", *words)))
        except InstallError as error:
            raise UserError(f"what is published today cannot be asked:\n{error}") from None
    by_name: dict[str, str] = {canonicalize_name(name): version for name, version in found.items()}
    return {name: by_name[canonicalize_name(name)] for name in wanted}


def released(plan: Plan, newest: Mapping[str, str]) -> list[str]:
    """Return the releases of Triton, the oldest first."""
    return list(dict.fromkeys(newest["triton"] if one == "newest" else one for one in plan.triton))


def asked(python: str) -> dict[str, str]:
    """Return the version of the Python of the programs, and of each distribution that it has.

    Raises:
        UserError: it does not start, or has no PyTorch or NumPy.
    """
    try:
        run = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"--python {python}: {error.strerror}") from None
    if run.returncode:
        raise UserError(f"--python {python}: {run.stderr.strip().rpartition(chr(10))[2]}")
    first, *others = run.stdout.splitlines()
    found: dict[str, str] = {
        canonicalize_name(name): version for name, _, version in (line.partition(" ") for line in sorted(others))
    }
    if absent := [name for name in NEEDED if name not in found]:
        raise UserError(f"--python {python}: it has no {absent[0]}. It needs {' and '.join(NEEDED)}.")
    return {"python": first.partition(" ")[2].replace(" ", "."), **found}


def folders_of(
    python: str, name: str, package: Package, newest: Mapping[str, str], folder: Path
) -> tuple[list[Path], dict[str, str]]:
    """Return the folders that have a package with what is installed beside it, and the versions of these.

    Raises:
        UserError: something cannot be installed.
    """
    pins = dict(_pin(one, newest) for one in package.requires)
    places = [package.path] if package.path else []
    if not package.path:
        pins[name] = package.version or newest[name]
    return [*places, *(installed(python, one, version, folder) for one, version in pins.items())], pins


def pins_of(name: str, package: Package, newest: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of a package and of what is installed beside it; nothing is installed."""
    own = {} if package.path else {name: package.version or newest[name]}
    return {**dict(_pin(one, newest) for one in package.requires), **own}


def _pin(text: str, newest: Mapping[str, str]) -> tuple[str, str]:
    name, _, version = text.partition("==")
    return name, version or newest[name]


def modules_in(folders: Iterable[Path]) -> list[Path]:
    """Return the source files of Python in folders, without tests."""
    return [
        path
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if "tests" not in path.relative_to(folder).parts
    ]
