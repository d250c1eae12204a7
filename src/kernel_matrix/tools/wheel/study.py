"""All that is found of one wheel: an answer for each shared object and build, its promises, and the loader's word."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from packaging.version import Version

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.job.ahead.nvcc import demangled
from kernel_matrix.tools.wheel import promises
from kernel_matrix.tools.wheel.builds import Build
from kernel_matrix.tools.wheel.loading import Answer, answer
from kernel_matrix.tools.wheel.wheel import Wheel, opened

_LOAD = Path(__file__).with_name("inside") / "load.py"


@dataclass(frozen=True)
class Said:
    """The loader's word of one shared object: its error, empty if it loads, and the files that it then has loaded."""

    error: str
    files: Sequence[str]


@dataclass(frozen=True)
class Study:
    """A wheel with the answers by the version of the build, the excepted objects, and what the loader said of each."""

    wheel: Wheel
    answers: Mapping[str, Mapping[str, Answer]]
    excepted: Sequence[str]
    untrue: Sequence[str]
    unserved: Mapping[str, Sequence[str]]
    said: Mapping[str, Said] | None = None
    said_by: str = ""
    readable: Mapping[str, str] = field(default_factory=dict)

    def admits(self, version: str) -> bool:
        """Return whether the metadata admits a version of PyTorch."""
        wanted = self.wheel.torch
        return wanted is None or wanted.contains(Version(version.partition("+")[0]), prereleases=True)

    @property
    def is_red(self) -> bool:
        """Return whether an object does not load with a build that the metadata admits, or a promise is not kept."""
        failed = any(
            not one.loads for version, of in self.answers.items() if self.admits(version) for one in of.values()
        )
        return failed or bool(self.untrue) or not self.wheel.is_read

    @property
    def unlike(self) -> list[str]:
        """Return the objects of which the loader says something else than the answer, and this machine is no reason."""
        return [
            name
            for name, said in (self.said or {}).items()
            if name not in self.of_machine and not _agree(self.answers[self.said_by][name], said.error)
        ]

    @property
    def of_machine(self) -> dict[str, list[str]]:
        """Return the objects that load since this machine itself has what they lack, with these libraries."""
        found = {}
        for name, said in (self.said or {}).items():
            one = self.answers[self.said_by][name]
            if one.libraries and not said.error and set(one.libraries) <= set(said.files):
                found[name] = list(one.libraries)
        return found

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "wheel": self.wheel.name,
            "torch": None if self.wheel.torch is None else str(self.wheel.torch),
            "codes": sorted(set().union(*self.wheel.codes.values())),
            "untrue": list(self.untrue),
            "unserved": dict(self.unserved),
            "excepted": list(self.excepted),
            "answers": {
                version: {name: {**vars(one), "loads": one.loads} for name, one in of.items()}
                for version, of in self.answers.items()
            },
            **(
                {}
                if self.said is None
                else {
                    "said": {name: said.error for name, said in self.said.items()},
                    "said_by": self.said_by,
                    "unlike": self.unlike,
                    "of_machine": self.of_machine,
                }
            ),
        }


def study(path: Path, builds: Sequence[Build], excepted: Sequence[str], python: str) -> Study:
    """Study one wheel. With a ``python`` its shared objects are loaded there too.

    Raises:
        UserError: it is no wheel, or PyTorch cannot be imported there.
    """
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        wheel = opened(path, Path(folder))
        out = [name for name in wheel.objects if any(fnmatch(Path(name).name, pattern) for pattern in excepted)]
        names = [name for name in wheel.objects if name not in out]
        answers = {build.version: {name: answer(wheel, name, build) for name in names} for build in builds}
        said, said_by = _said(python, folder, names) if python else (None, "")
        symbols = sorted({one for of in answers.values() for each in of.values() for one in each.of_pytorch})
        return Study(
            wheel=wheel,
            answers=answers,
            excepted=out,
            untrue=list(promises.untrue(wheel)),
            unserved=promises.unserved(wheel),
            said=said,
            said_by=said_by,
            readable=dict(zip(symbols, demangled(symbols), strict=True)),
        )


def site_of(python: str) -> str:
    """Return the folder that the PyTorch of a Python is installed in.

    Raises:
        UserError: PyTorch is not imported there.
    """
    return str(Path(_asked(python, [""])["file"]).parents[1])


def _said(python: str, folder: str, names: Sequence[str]) -> tuple[Mapping[str, Said], str]:
    found = _asked(python, [folder, *names])
    return {name: Said(**said) for name, said in found["said"].items()}, found["torch"]


def _asked(python: str, words: Sequence[str]) -> dict[str, Any]:
    try:
        done = subprocess.run([python, str(_LOAD), *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"--load {python}: it cannot be started: {reason_of(error)}.") from None
    if done.returncode:
        raise UserError(f"--load {python}: PyTorch is not imported there: {done.stderr.strip().rpartition(chr(10))[2]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _agree(one: Answer, said: str) -> bool:
    """Return whether the loader's message is about what the answer names."""
    if not said:
        return one.loads
    named = (*one.libraries, *one.of_pytorch, *one.others, *one.before)
    return any(name in said for name in named)
