"""The package as the benchmark knows it: its operators, the rivals of its kernels, and the clocks of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import layer
import operators
import peers
import rivals
import torch
from clocks import clock_of

from kernel_matrix.tools.bench.inside.protocol import Clock, Subject


def adapter(device: str) -> PackageAdapter:
    """Return the adapter for ``cpu`` or ``cuda``."""
    return PackageAdapter(torch.device(device))


class PackageAdapter:
    """The package on one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.clock: Clock = clock_of(device)

    def contender_of(self, backend: str) -> str:
        """Return the name of a backend among the contenders: two of them are rivals too."""
        return {"reference": rivals.EAGER, "inductor": rivals.COMPILE}.get(backend, backend)

    def subject(self, op: str, direction: str, axes: Mapping[str, Any]) -> Subject:
        """Return one operator with one shape; ``read`` and ``layer`` are made of several."""
        if op == "layer":
            return layer.LayerSubject(axes, self._device)
        kind = operators.ReadSubject if op == "read" else operators.OperatorSubject
        return kind(op, direction, axes, self._device)

    def facts(self) -> Mapping[str, str]:
        """Return what the figures depend on beside the device."""
        facts = {"threads": str(torch.get_num_threads()), "framework": torch.__version__}
        if self._device.type == "cpu":
            facts["cores"] = str(os.cpu_count())
        return facts | peers.versions()
