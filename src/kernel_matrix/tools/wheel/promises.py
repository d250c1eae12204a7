"""Compare what a wheel promises with what is in it: its tags, its versions of PyTorch, the GPUs that its text names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath

from kernel_matrix.base.words import some
from kernel_matrix.tools.wheel.elf import Shared
from kernel_matrix.tools.wheel.gpu_code import UNREADABLE, runs_on
from kernel_matrix.tools.wheel.loading import owner
from kernel_matrix.tools.wheel.wheel import Wheel
from kernel_matrix.vendors.registry import vendors

Glibc = tuple[int, ...]
_OLD_NAMES: Mapping[str, Glibc] = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PROMISE = re.compile(r"(manylinux\d+|manylinux_(\d+)_(\d+))_")
_GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")
_OF_ONE_PYTHON = re.compile(r"\.cpython-(\d+)-")
_NAMED = re.compile(r"\b(?:sm_?(\d{2,3})[af]?|compute capability (?:>=? ?)?(\d+)\.(\d)|(gfx\d[0-9a-f]{2,3}))\b", re.I)
_MOST = 3


def untrue(wheel: Wheel) -> Iterator[str]:
    """Yield the promises that are not kept, as sentences: of the tags, and that a shared object is a whole one."""
    for name in wheel.broken:
        yield f"{PurePosixPath(name).name} begins as an ELF file, and cannot be read to its end"
    promised = [glibc for tag in wheel.tags if (glibc := _promised(tag.platform))]
    if promised:
        over = {name: needs for name, shared in wheel.objects.items() if (needs := glibc_of(shared)) > min(promised)}
        if over:
            names = some([PurePosixPath(name).name for name in over])
            newest, oldest = (".".join(map(str, one)) for one in (max(over.values()), min(promised)))
            yield f"its tag promises glibc {oldest}, and {names} ask for {newest}"
    pythons = {tag.interpreter for tag in wheel.tags}
    for name in wheel.objects:
        if (match := _OF_ONE_PYTHON.search(name)) and (
            f"cp{match[1]}" not in pythons or all(tag.abi == "abi3" for tag in wheel.tags)
        ):
            tags = " ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in wheel.tags})[:_MOST])
            yield f"{PurePosixPath(name).name} is imported by CPython {_python(match[1])} alone, and the tag is {tags}"


def names_no_pytorch(wheel: Wheel) -> bool:
    """Return whether shared objects need PyTorch, and the metadata names none."""
    needed = (library for one in wheel.objects.values() for library in one.needed)
    return wheel.torch is None and any(owner(library).startswith("PyTorch") for library in needed)


def unserved(wheel: Wheel) -> dict[str, list[str]]:
    """Return the GPUs that the text of the metadata names and no code in the wheel runs on, each with its words."""
    codes = set().union(*wheel.codes.values())
    if not codes or UNREADABLE in codes:
        return {}
    of_vendor = {"sm_" if code.startswith(("sm_", "compute_")) else "gfx" for code in codes}
    return {
        target: words
        for target, words in _named(wheel).items()
        if target.startswith(tuple(of_vendor)) and not runs_on(codes, target)
    }


def glibc_of(shared: Shared) -> Glibc:
    """Return the newest version of glibc that a shared object asks for."""
    asked = (_GLIBC.fullmatch(version.name) for version in shared.undefined.values() if version)
    return max((tuple(map(int, match[1].split("."))) for match in asked if match), default=())


def _promised(platform: str) -> Glibc:
    match = _PROMISE.match(platform)
    if match is None:
        return ()
    return _OLD_NAMES.get(match[1]) or (int(match[2]), int(match[3]))


def _python(digits: str) -> str:
    return f"{digits[0]}.{digits[1:]}"


def _named(wheel: Wheel) -> dict[str, list[str]]:
    """Return the targets that the description names, with the words that name them."""
    text = f"{wheel.metadata.get_payload()} {wheel.metadata.get('Keywords', '')} {wheel.metadata.get('Summary', '')}"
    found: dict[str, dict[str, None]] = {}
    for match in _NAMED.finditer(text):
        number = match[1] or (match[2] and match[2] + match[3])
        found.setdefault(f"sm_{number}" if number else match[4].lower(), {})[match[0]] = None
    for word, target in _devices().items():
        if re.search(rf"(?<![\w-]){word}(?![\w-])", text):
            found.setdefault(target, {})[word] = None
    return {target: list(words) for target, words in sorted(found.items())}


@cache
def _devices() -> Mapping[str, str]:
    """Return the targets by the names of devices that have one target alone."""
    names: dict[str, set[str]] = {}
    for vendor in vendors().values():
        for target, text in vendor.names.items():
            for word in text.split():
                names.setdefault(word, set()).add(target)
    return {
        re.escape(word).replace(r"\-", "[- ]"): min(targets)
        for word, targets in names.items()
        if len(targets) == 1 and re.search(r"\d", word) and len(word) > 2
    }
