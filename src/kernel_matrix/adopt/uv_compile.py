"""One call of ``uv pip compile`` for one kind of build and one Python."""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from kernel_matrix.base.wheels import known_wheels, words
from kernel_matrix.config import locks
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors import builds

_TRITON = re.compile(r"^triton(?=[\s=<>!~\[;@]|$)", re.MULTILINE | re.IGNORECASE)
_LOCAL = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)\b")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question for uv.

    like: The versions of another kind of build, which are to be kept.
    limits: Further constraints.
    preferred: Versions that are kept where they go with the rest.
    machine: uv's word for the machines with Linux.
    """

    source: Path
    kind: str
    python: str
    like: Mapping[str, str]
    limits: Sequence[str]
    preferred: Sequence[str]
    machine: str

    @property
    def version(self) -> str:
        """The version of PyTorch that is asked for; empty where uv chooses."""
        return self.like.get(builds.distribution(), "")


def compiled(asked: Asked) -> tuple[str, str]:
    """Return the text of the lock, of wheels alone where these go together; or an empty text, and what uv says.

    An old source archive may allow what no wheel does, and then it is built, or cannot be.
    """
    of_wheels, fault = _compiled(asked, "--only-binary", ":all:")
    return (of_wheels, fault) if not fault else _compiled(asked)


def _compiled(asked: Asked, *options: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        variables = _variables(place, asked)
        source, output, limits = place / asked.source.name, place / "lock.txt", place / "constraints.txt"
        source.write_text(_renamed(asked), encoding="utf-8")
        limits.write_text("".join(f"{line}\n" for line in _constraints(asked)), encoding="utf-8")
        output.write_text("".join(f"{pin}\n" for pin in asked.preferred), encoding="utf-8")  # uv keeps what it can
        try:
            uv(
                *("pip", "compile", "--quiet", "--no-header", "--no-emit-find-links", "--no-emit-index-url"),
                *("--python", sys.executable, "--python-version", asked.python),
                *("--python-platform", builds.platform_of(asked.kind, asked.machine)),
                *("--constraints", str(limits), *_own_constraints(), *options),
                *(*excludes(place, asked.kind), *find_links(place, asked.kind)),
                *("--output-file", str(output), str(source)),
                variables=variables,
            )
        except InstallError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            return "", f"{_unknown(asked)}{' '.join(lines[1:])[:600]}"
        text = output.read_text(encoding="utf-8")
        return _plain(text, place), ""


def _unknown(asked: Asked) -> str:
    """Return that nobody knows what a build asks for, where the index was asked for that reason; empty otherwise."""
    if not asked.version or builds.added_by(asked.kind, asked.version) is not None:
        return ""
    build = f"{builds.distribution()} {asked.version} for {asked.kind}"
    return f"nobody has written down what {build} asks for, and its index: "


def _own_constraints() -> Iterator[str]:
    """Yield the constraints of this machine, which the option of the same name would replace."""
    for name in words("UV_CONSTRAINT", "PIP_CONSTRAINT"):
        yield from ("--constraints", name)


def excludes(place: Path, kind: str) -> Iterator[str]:
    """Yield the option that keeps ``triton`` out where the build has it by another name: a package may ask for it."""
    if kind in ("rocm", "xpu"):
        (place / "excludes.txt").write_text("triton\n", encoding="utf-8")
        yield from ("--excludes", str(place / "excludes.txt"))


def find_links(place: Path, kind: str) -> Iterator[str]:
    """Yield the options with a folder of this machine's wheels, without PyTorch's of another kind, and the addresses.

    uv takes a wheel with a local version, such as ``+cpu``, before the one of an index.
    """
    named = builds.distribution()
    for name, version, path in known_wheels():
        if not (name == named and builds.is_of_another(str(version), kind)) and not (place / path.name).exists():
            (place / path.name).symlink_to(path.resolve())
    yield from ("--find-links", str(place))
    for address in words("UV_FIND_LINKS", "PIP_FIND_LINKS"):
        if "://" in address and not address.startswith("file:"):
            yield from ("--find-links", address)


def _variables(place: Path, asked: Asked) -> dict[str, str | None]:
    """Write the wheels that stand in for a build, and return the variables of uv.

    There is none for the build on PyPI. Where nobody has written down what a build asks for, its index is asked.
    """
    backend, variables = builds.backend_of(asked.kind, asked.version), builds.variables_of(asked.kind)
    if not (asked.version and backend):
        return {"UV_TORCH_BACKEND": None, **variables}
    if builds.added_by(asked.kind, asked.version) is None:
        return {"UV_TORCH_BACKEND": backend, "UV_HTTP_RETRIES": "0", **variables}
    stand_ins(place, asked.kind, asked.version)
    return {"UV_TORCH_BACKEND": None, **variables}


def stand_ins(place: Path, kind: str, version: str) -> None:
    """Write wheels that stand in for a build and for its Triton, which the index on PyPI does not have."""
    requirements = builds.requirements_of(kind, version) or ()
    stand_in(place, builds.distribution(), f"{builds.public(version)}+{builds.backend_of(kind, version)}", requirements)
    for one in requirements:
        if one.name in builds.tritons():
            stand_in(place, one.name, next(iter(one.specifier)).version, ())


def stand_in(place: Path, name: str, version: str, requirements: Sequence[Requirement]) -> Path:
    """Write a wheel of nothing but metadata, and return it."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {one}\n" for one in requirements]
    path = place / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", "".join(lines))
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def _constraints(asked: Asked) -> Iterator[str]:
    """Yield the constraints: the other kind's versions, and the exact build."""
    named, backend = builds.distribution(), builds.backend_of(asked.kind, asked.version)
    others = () if asked.kind in (builds.CPU, builds.LEADER) else builds.tritons()  # with numbers of their own
    yield from (f"{name}=={version}" for name, version in asked.like.items() if name not in (named, *others))
    if asked.version:
        yield f"{named}=={builds.public(asked.version)}{f'+{backend}' if backend else ''}"
    yield from asked.limits


def _renamed(asked: Asked) -> str:
    """Return the requirements with the name that Triton has for this kind of build."""
    text = locks.requirements_in(asked.source)
    return _TRITON.sub(builds.triton_of(asked.kind, asked.version).name, text) if asked.version else text


def _plain(text: str, place: Path) -> str:
    """Return the text of a lock without the folder of this call and without the names of builds."""
    lines, origins = list[str](), list[str]()
    for line in [*_LOCAL.sub("", text).splitlines(), ""]:
        if line.startswith(" "):
            origins += [origin for origin in [line.strip().removeprefix("# via").strip("# ")] if origin]
            continue
        own = [origin.replace(f"{place}/", "") for origin in origins if not origin.startswith("-c ")]
        head = ["    # via"] if len(own) > 1 else []
        lines += [*head, *(f"    # {'  ' if head else 'via '}{one}" for one in own)]
        lines, origins = [*lines, line], []
    return "\n".join(lines)
