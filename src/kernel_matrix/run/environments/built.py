"""The build of a package: its commands run in a copy of the repository, before the jobs of a toolchain do.

A build writes files into the folders of the sources and installs into the environment. So each toolchain of a platform
has a copy of the repository, with an environment that nothing else uses, and the repository stays as it is. The copy is
made anew when anything that goes into the build has changed: nothing that an earlier source left behind is tested.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.files import own_output
from kernel_matrix.base.locking import locked
from kernel_matrix.config.own_version import own_version
from kernel_matrix.config.reads import source_names
from kernel_matrix.run.executors import Child, InstallError, Request
from kernel_matrix.run.own_time import wait_for_end

SHELL = "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[1]])"  # for Python, which an interpreter starts
_LINES = 200  # of a command's output, in the text of its error
_ERROR = re.compile(r"(?i)\berrors?\b|error:|fatal|unavailable|not found|no such file")
_OF_CMAKE = re.compile(r"(CMake Error at \S+ \(\w+\):)\s*\n\s*")  # the next line says what it is
# Lines that pip, CMake and ninja put around an error, and that do not say what it is.
_AROUND = re.compile(
    r"\s*(×|╰─>|│|note: |hint: |\[end of output\]|ninja: build stopped"
    r"|error: (subprocess-exited|metadata-gen|failed-|[Cc]ommand .* (failed with|returned))"
    r"|ERROR: Failed (building|to build)|subprocess\.CalledProcessError|RuntimeError: Error compiling objects"
    r"|make(\[\d\])?: \*\*\*|gmake(\[\d\])?: \*\*\*|FAILED: |\d+ errors? detected in the compilation"
    r"|-- Configuring incomplete|\*\*\* CMake|CMake Error at \S*/FetchContent\.cmake)"
)
_MISSING = re.compile(r"(?i)no such file|not found|cannot (find|open)|can't open|does not exist|doesn't exist|missing")
_PATH = re.compile(r"[\w./+-]+\.\w+")
_failures: dict[Path, str] = {}  # of this process: all jobs of a toolchain have the same build
_KEPT = 1  # builds of other sources for the same toolchain: to go back to the last commit is quick
_NO_VERSION = "0+unknown"
# A copy has no history, from which these take the version: setuptools-scm and hatch-vcs, PDM, and a plugin of Poetry.
_ASKED = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PDM_BUILD_SCM_VERSION", "POETRY_DYNAMIC_VERSIONING_BYPASS")
# pip refuses the user's constraints of isolated builds where one is not isolated; empty, the variable is not there.
_NOT_ISOLATED, _UNISOLATED = "--no-build-isolation", {"PIP_BUILD_CONSTRAINT": ""}


@dataclass(frozen=True)
class Build:
    """One build: the request of a job that needs it, the folder of its copy, and the files that are copied."""

    request: Request
    place: Path
    names: tuple[str, ...]

    @classmethod
    def of(cls, request: Request, executor: str, image: str = "") -> Build:
        """Return the build that a job needs. Its folder is named by all that goes into it, the id of its image too."""
        names = tuple(_names(request))
        lane = f"{request.job.platform}.{request.job.toolchain}.{executor}.{'gpu' if request.gpu else 'cpu'}"
        return cls(request, request.build.resolve() / "built" / lane / _content(request, image, names), names)

    @property
    def root(self) -> Path:
        """The copy of the repository."""
        return self.place / "tree"

    @property
    def inside(self) -> Request:
        """The request of a job that finds its package and its suite in the copy."""
        return replace(self.request, root=self.root)

    @property
    def log(self) -> Path:
        """The file with the output of the commands."""
        return self.place / "build.txt"

    def once(self, make: Callable[[], str], is_made: Callable[[str], bool] = bool) -> str:
        """Call ``make`` in a new copy, or return what it returned before, for which ``is_made`` holds.

        Raises:
            InstallError: it failed, and nothing is kept but the log.
        """
        complete = self.place / "complete"
        with locked(self.place.parent / "lock", wait=True):  # another run may be building
            if complete.exists() and is_made(state := complete.read_text()):
                return state
            if self.place in _failures:
                raise InstallError(_failures[self.place])
            complete.unlink(missing_ok=True)
            self._remove_older()
            self._copy()
            try:
                state = make()
            except BaseException as error:
                shutil.rmtree(self.root)
                if isinstance(error, InstallError):
                    _failures[self.place] = str(error)
                raise
            complete.write_text(state)
        return state

    def run(self, start: Callable[[str], Child]) -> None:
        """Run the commands in turn.

        Raises:
            InstallError: one failed or took too long; with the end of its output.
        """
        limit = self.request.matrix.limits.build
        self.log.write_text("")
        for command in self.request.matrix.package.build_commands:
            self.request.say(f"building: {command}")
            status = wait_for_end(start(command), limit)
            if status != 0:
                ended = f"no end after {limit:g} s" if status is None else f"it ended with status {status}"
                raise InstallError(self._failure(command, ended))

    def _failure(self, command: str, ended: str) -> str:
        """Return the end of a command's output; in the last line, why it failed."""
        printed = _OF_CMAKE.sub(r"\1 ", self.log.read_text(encoding="utf-8", errors="replace")).splitlines()
        lines = [line.rstrip() for line in printed if line.strip() and not _AROUND.match(line)]
        errors = [line.strip() for line in lines if _ERROR.search(line)]
        reason = (errors or [line.strip() for line in lines] or [command])[-1]
        if ignored := next(filter(None, map(self._not_copied, [reason, *reversed(errors)])), ""):
            reason += f" ({ignored} is there, but git ignores it, so the build has it not: git add -f {ignored})"
        return "\n".join([f"$ {command}", *lines[-_LINES:], f"the build has failed: {ended}: {reason}"])

    def _not_copied(self, line: str) -> str:
        """Return the first file of the repository that a line misses and that git ignores; empty if there is none."""
        if not _MISSING.search(line):
            return ""
        own = f"{self.root}/"
        named = (word.removeprefix(own).removeprefix("./") for word in _PATH.findall(line))
        return next(
            (name for name in named if name not in self.names and (self.request.root / name).is_file()),
            "",
        )

    def variables(self, cache: str) -> dict[str, str]:
        """Return the variables of the commands, but PATH: matrix.yaml's, and those that name the targets.

        ``cache`` is the folder of the compilers' caches, as the commands see it.
        """
        request = self.request
        package = request.matrix.package
        return {
            **dict.fromkeys(_ASKED, _version(request)),
            **(_UNISOLATED if any(_NOT_ISOLATED in one for one in package.build_commands) else {}),
            **_variables_of_lane(request),
            **{name: value.replace("{cache}", cache) for name, value in package.environment.items()},
        }

    def _copy(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.request.say("copying the repository to build it")
        for name in self.names:
            into = self.root / name
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.request.root / name, into, follow_symlinks=False)

    def _remove_older(self) -> None:
        others = [path for path in self.place.parent.iterdir() if path.is_dir() and path != self.place]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def _names(request: Request) -> Iterator[str]:
    """Yield the files to copy: the source's files without the build folder, and without the log of this run."""
    root, build, logs = request.root.resolve(), request.build.resolve(), {*own_output().values()}
    for name in sorted(source_names(root)):
        path = root / name
        if (path.is_symlink() or path.is_file()) and not path.is_relative_to(build) and path not in logs:
            yield name


def _content(request: Request, image: str, names: tuple[str, ...]) -> str:
    """Return the hash of all that goes into the build."""
    package, version = request.matrix.package, ".".join(map(str, sys.version_info[:3]))
    content = sha256(request.lock.read_bytes())
    variables = sorted({**package.environment, **_variables_of_lane(request)}.items())
    for part in (image, version, _version(request), *package.build_commands, *variables):
        content.update(f"{part}\n".encode())
    for name in names:
        path = request.root / name
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        content.update(f"{name} {path.lstat().st_mode & 0o111} {sha256(data).hexdigest()}\n".encode())
    return content.hexdigest()[:12]


def _version(request: Request) -> str:
    """Return the version of the package by its files, else by git's tags."""
    own = own_version(request.root, request.matrix.package)
    return (own and own.version) or git.release(request.root) or _NO_VERSION


def _variables_of_lane(request: Request) -> dict[str, str]:
    """Return the variables of a toolchain on a platform: the targets of all its entries, and its own variables."""
    entries = [one for one in request.platform.entries if one.toolchain == request.job.toolchain]
    targets = dict.fromkeys(target for one in entries for target in one.targets or request.platform.targets)
    own = request.platform.by_toolchain[request.job.toolchain].environment
    return {**request.vendor.build_variables(tuple(targets)), **own}
