"""Ask the indexes of PyTorch's builds whether they say what the table of builds says."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.config import locks
from kernel_matrix.config.model import Matrix
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors import builds
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import last_line

_LINUX = "x86_64-manylinux_2_36"
_REMEDY = "correct src/kernel_matrix/vendors/builds.toml, and make the locks anew: `kernel-matrix lock`"
# The index is asked, and no folder of wheels, also of pip's files: what has a value is not taken from there. And no
# longer than a person waits.
_ASKING = {"UV_FIND_LINKS": "", "PIP_FIND_LINKS": None, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}


def build_findings(matrix: Matrix, root: Path) -> Iterator[Finding]:
    """Yield a finding for each build of PyTorch that a lock of the matrix pins."""
    files = {
        (kind, locks.lock_file(root, lock, kind)) for lock, kinds in locks.kinds_of(matrix).items() for kind in kinds
    }
    named = {(kind, locks.pins(path).get(builds.distribution(), "")) for kind, path in files if path.is_file()}
    for kind, version in sorted(named):
        if version:
            yield _finding(kind, version)


def _finding(kind: str, version: str) -> Finding:
    what = f"{builds.distribution()} {version} for {kind}"
    known = builds.requirements_of(kind, version)
    try:
        found = _asked_for(kind, version)
    except InstallError as error:
        taken = (
            "what builds.toml says is taken" if known is not None else "and nobody has written down what it asks for"
        )
        return Finding(what, "absent", f"its index does not say what it asks for ({last_line(str(error))}): {taken}")
    said = ", ".join(f"{name} {number}" for name, number in sorted(found.items()) if name in builds.tritons())
    if known is None:
        return Finding(what, "broken", f"it asks for {said or 'no Triton'}, and builds.toml does not know it", _REMEDY)
    if different := ", ".join(_differences(known, found)):
        return Finding(what, "broken", f"its index says other than builds.toml: {different}", _REMEDY)
    return Finding(what, "good", f"its index says what builds.toml says: {said or 'no Triton'}")


def _asked_for(kind: str, version: str) -> dict[str, str]:
    """Return what a build asks for itself, with the versions that uv takes.

    Raises:
        InstallError: its index does not answer, or does not have it.
    """
    named = builds.distribution()
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.in")
        wanted.write_text(f"{named}=={builds.public(version)}\n", encoding="utf-8")
        text = uv(
            *("pip", "compile", "--quiet", "--no-header", "--python", sys.executable, "--python-version", "3.11"),
            *("--python-platform", builds.platform_of(kind, _LINUX), str(wanted)),
            variables={
                "UV_TORCH_BACKEND": builds.backend_of(kind, version) or None, **builds.variables_of(kind), **_ASKING
            },
        )  # fmt: skip
    blocks = re.findall(r"^([\w.-]+)==(\S+)\n((?: +#.*\n?)*)", text, re.MULTILINE)
    own = re.compile(rf"[# ]{named}$", re.MULTILINE)
    return {canonicalize_name(name): number for name, number, why in blocks if own.search(why)}


def _differences(known: tuple[Requirement, ...], found: Mapping[str, str]) -> Iterator[str]:
    """Yield what an index says otherwise than the table."""
    written = {canonicalize_name(one.name): one for one in known if one.marker is None}
    for name, one in written.items():
        if name not in found:
            yield f"no {name}"
        elif not one.specifier.contains(found[name], prereleases=True):
            yield f"{name} {found[name]} in place of {one.specifier}"
    yield from (f"{name} {number} besides" for name, number in found.items() if name not in written)
