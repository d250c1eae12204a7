"""Compile a kernel for a target that need not be here: a service for the kernel's side of a suite.

``ahead.triton`` and ``ahead.tilelang`` each have one function that returns an :class:`Artifact`. They import nothing of
their toolchain before they are called. A function of the suite's kernel_side.py returns :func:`sent`, and its test
calls ``case.compile("kernel_side:function")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernel_matrix.job.inputs import Array


@dataclass(frozen=True)
class Artifact:
    """The code that a compiler made: its kind (``cubin``, ``hsaco``, ``hip-source``), its bytes, what it needs."""

    kind: str
    code: bytes
    resources: Mapping[str, float] = field(default_factory=dict)


def sent(artifacts: Artifact | Mapping[str, Artifact]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return one artifact, or several by name, in the form in which the kernel's process answers ``case.compile``."""
    named = {"artifact": artifacts} if isinstance(artifacts, Artifact) else dict(artifacts)
    told = {name: {"kind": one.kind, "resources": dict(one.resources)} for name, one in named.items()}
    return told, {name: np.frombuffer(one.code, np.uint8) for name, one in named.items()}
