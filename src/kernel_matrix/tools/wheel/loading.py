"""Say whether a shared object of a wheel loads with a build of PyTorch, and what it lacks."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from kernel_matrix.tools.wheel.builds import Build
from kernel_matrix.tools.wheel.wheel import Wheel

# The libraries that a wheel may take from any Linux system (PEP 600), by the beginnings of their names.
SYSTEM = (
    *("libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "libutil.so.", "libresolv.so.", "libnsl.so."),
    *("libgcc_s.so.", "libstdc++.so.", "ld-linux", "libpython3", "libz.so.1", "libexpat.so.1", "libatomic.so.1"),
    *("libX11.so.", "libXext.so.", "libXrender.so.", "libICE.so.", "libSM.so.", "libGL.so.1"),
    *("libglib-2.0.so.", "libgobject-2.0.so.", "libgthread-2.0.so."),
)
_LOADED = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1")
_KIND = re.compile(r"lib(?:torch|c10)_(cuda|hip|xpu)\b")  # what such a library has is in namespaces of that name
# Whose other libraries are.
_OWNERS: Mapping[str, tuple[str, ...]] = {
    "PyTorch built for CUDA": ("libtorch_cuda", "libc10_cuda"),
    "PyTorch built for ROCm": ("libtorch_hip", "libc10_hip"),
    "PyTorch built for XPU": ("libtorch_xpu", "libc10_xpu"),
    "PyTorch": ("libtorch", "libc10", "libshm"),
    "the NVIDIA driver": ("libcuda.so", "libnvcuvid", "libnvidia-"),
    "NVIDIA's CUDA": ("libcu", "libnv", "libnccl", "libnpp"),
    "AMD's ROCm": ("libamd", "libhip", "libroc", "librccl", "libMIOpen", "libhsa"),
    "Intel's oneAPI": ("libsycl", "libmkl", "libimf", "libsvml", "libirng", "libintlc", "libdnnl", "libze_"),
    "FFmpeg": ("libavcodec", "libavformat", "libavutil", "libavfilter", "libavdevice", "libsw"),
    "GNU's OpenMP": ("libgomp",),
}
_OF_PYTORCH = re.compile(r"_Z(?:T[VIST]|GV|L)?N?[KVrRO]*(?:3c10|2at|5torch|6caffe2)|(?:THP|aoti_torch_|torch_|c10_)\w+")
_OF_PYTHON = re.compile(r"_?Py[A-Z_]\w*")


@dataclass(frozen=True)
class Answer:
    """The lack of one shared object with one build: libraries by their owner, symbols of PyTorch, and others.

    ``before`` are libraries of the wheel itself that the loader does not find: the package must load them first.
    """

    libraries: Mapping[str, str] = field(default_factory=dict)
    of_pytorch: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Return whether it loads, once the package has loaded its own libraries."""
        return not (self.libraries or self.of_pytorch or self.others)


def answer(wheel: Wheel, name: str, build: Build) -> Answer:
    """Return what a shared object of a wheel lacks with a build that is imported before it."""
    loaded = list(wheel.closure(name))
    needed = dict.fromkeys(library for shared in loaded for library in shared.needed)
    absent = {
        library: owner(library)
        for library in needed
        if library not in wheel.by_soname and library not in build.libraries and not library.startswith(SYSTEM)
    }
    with_pytorch = any(library in build.own or owner(library).startswith("PyTorch") for library in needed)
    unread = _unread({*needed, *(build.libraries if with_pytorch else ())}, wheel, build)
    given = build.symbols if with_pytorch else frozenset()
    missing = sorted(
        symbol
        for shared in loaded
        for symbol, version in shared.undefined.items()
        if not (version and (version.library in {*absent, *unread} or version.library.startswith(SYSTEM)))
        and symbol not in given
        and not _OF_PYTHON.fullmatch(symbol)
        and not any(symbol in one.defined for one in loaded)
        and not any(hasattr(library, symbol) for library in _system())
    )
    kinds = [match[1] for library in absent if (match := _KIND.match(library))]
    return Answer(
        absent,
        tuple(one for one in missing if is_of_pytorch(one) and not any(kind in one for kind in kinds)),
        () if unread else tuple(one for one in missing if not is_of_pytorch(one)),
        tuple(one for one in wheel.objects[name].needed if one in wheel.by_soname and not wheel.finds(name, one)),
    )


def _unread(libraries: Iterable[str], wheel: Wheel, build: Build) -> set[str]:
    """Return the libraries whose symbols nobody has read: others' libraries, here or absent."""
    return {
        one for one in libraries if one not in wheel.by_soname and one not in build.own and not one.startswith(SYSTEM)
    }


@cache
def _system() -> tuple[ctypes.CDLL, ...]:
    """Return the libraries of this system that any wheel may use: they tell which symbols without a version exist."""
    found = []
    for name in _LOADED:
        with contextlib.suppress(OSError):
            found.append(ctypes.CDLL(name))
    return tuple(found)


def owner(library: str) -> str:
    """Return whose a library is; empty if it is not known."""
    return next((who for who, beginnings in _OWNERS.items() if library.startswith(beginnings)), "")


def is_of_pytorch(symbol: str) -> bool:
    """Return whether a symbol is in a namespace of PyTorch, or is one of its functions in C."""
    return bool(_OF_PYTORCH.match(symbol))
