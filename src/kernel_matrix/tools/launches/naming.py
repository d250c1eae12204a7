"""Names for the dashboard: a kernel is an operator, and a launch of it is a case."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from packaging.utils import canonicalize_name

from kernel_matrix.tools.launches.recording import Launch, Recording

DIRECTION = "launch"
_SHORT = 8  # hexadecimal digits of an identity
_MOST_TYPES = 4
_LETTERS = {"num_warps": "w", "num_stages": "s", "num_ctas": "c"}

Kernel = tuple[str, str, str]  # its toolchain, its module and its name


def kernel_of(launch: Launch) -> Kernel:
    """Return the kernel of a launch."""
    return launch.toolchain, launch.module, launch.kernel


def op_names(launches: Iterable[Launch]) -> dict[Kernel, str]:
    """Return the operator's name of each kernel.

    It has the module where two modules have a kernel of that name, and the toolchain where two toolchains do.
    """
    kernels = dict.fromkeys(map(kernel_of, launches))
    short = {kernel: plain(kernel[2]) for kernel in kernels}
    for by_module in (1, 2, 9):
        counts = Counter(short.values())
        for kernel in kernels:
            if counts[short[kernel]] > 1:
                module = "-".join(kernel[1].split(".")[-by_module:])
                short[kernel] = f"{plain(module)}-{plain(kernel[2])}"
    counts = Counter(short.values())
    return {kernel: f"{kernel[0]}-{name}" if counts[name] > 1 else name for kernel, name in short.items()}


def case_axes(launches: Iterable[Launch]) -> dict[str, dict[str, str]]:
    """Return the axes of each launch's case, by its identity: types of tensors, options, and a part of the identity."""
    identities = {launch.identity for launch in launches}
    length = _SHORT if len({identity[:_SHORT] for identity in identities}) == len(identities) else None
    return {
        launch.identity: {
            "types": _types(launch),
            "options": _options(launch),
            DIRECTION: f"x{launch.identity[:length]}",
        }
        for launch in launches
    }


def plain(name: str) -> str:
    """Return a name with the letters that names in matrix.yaml have."""
    return re.sub(r"[^a-z0-9._-]+", "_", name.lower()).lstrip("._-") or "unnamed"


def package_of(recordings: Iterable[Recording]) -> tuple[str, str]:
    """Return the package that has most of the kernels, and its version; empty if no distribution has that name."""
    tops: Counter[str] = Counter()
    versions: Mapping[str, str] = {}
    for recording in recordings:
        versions = {**versions, **recording.versions}
        tops.update({kernel_of(launch): launch.module.partition(".")[0] for launch in recording.launches}.values())
    name = max((top for top in tops if top != "__main__"), key=lambda top: tops[top], default="program")
    known = {str(canonicalize_name(distribution)): version for distribution, version in versions.items()}
    candidates = (canonicalize_name(name), f"{canonicalize_name(name)}-core")
    return plain(name), next((known[candidate] for candidate in candidates if candidate in known), "")


def _types(launch: Launch) -> str:
    """Return the element types of the tensors, each once, such as ``bf16.fp32``."""
    pointers = [_element(kind) for kind in launch.types.values() if "*" in kind]
    names = list(dict.fromkeys(re.sub(r"[^A-Za-z0-9]+", "_", name) for name in pointers))
    return ".".join(names[:_MOST_TYPES]) or "scalars"


def _element(kind: str) -> str:
    """Return the type that a pointer points to: ``*bf16`` of Triton and TileLang, ``float const*`` of C++."""
    return kind.lstrip("*k") if kind.startswith("*") else re.sub(r"\b(const|__restrict__)\b|[* ]", "", kind)


def _options(launch: Launch) -> str:
    """Return the options that were given, such as ``w4.s2``: four warps, two stages."""
    given = defaultdict(str, launch.options)
    return ".".join(f"{letter}{given[name]}" for name, letter in _LETTERS.items() if given[name]) or "default"
