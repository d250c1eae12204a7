"""The published libraries that are rivals, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import deepgemm
import engine
import flashinfer_mhc
import liger
import peers
import tilegym_mhc
import tilekernels
import tilekernels_1

NAMES: Mapping[str, Callable[[Any], Any]] = {
    peers.LIGER: liger.contender,
    peers.TILEKERNELS: tilekernels.contender,
    peers.TILEKERNELS_1: tilekernels_1.contender,
    peers.DEEPGEMM: deepgemm.contender,
    f"{peers.TILEKERNELS}-pdl": functools.partial(tilekernels.contender, pdl=True),
    f"{peers.DEEPGEMM}-pdl": functools.partial(deepgemm.contender, pdl=True),
    peers.TRANSFORMER_ENGINE: engine.contender,
    f"{peers.TRANSFORMER_ENGINE}-atomic": functools.partial(engine.contender, atomic=True),
    peers.FLASHINFER: flashinfer_mhc.contender,
    peers.TILEGYM: tilegym_mhc.contender,
}


def contender(name: str, subject: Any) -> Any:
    """Return a library's kernels for a subject.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    return NAMES[name](subject)
