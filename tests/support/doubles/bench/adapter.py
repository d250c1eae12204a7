"""The benchmark's adapter of the doubles: one operator, and a clock that counts what it is asked to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import doubles
import numpy as np

from kernel_matrix.job.budget import Pair
from kernel_matrix.tools.bench.inside.cpu import CpuClock
from kernel_matrix.tools.bench.inside.protocol import AbsentError, Distance, Run, Yardstick

_ELEMENTS = 4096  # a token


def adapter(_: str) -> Adapter:
    return Adapter()


class Adapter:
    def __init__(self) -> None:
        self.clock = CpuClock(_copy, lambda: np.ones(1000).sum(), cache_bytes=1 << 16)

    def contender_of(self, backend: str) -> str:
        return backend

    def subject(self, op: str, direction: str, axes: Mapping[str, int]) -> Subject:
        assert (op, direction) == ("double", "forward")
        return Subject(axes["tokens"])

    def facts(self) -> Mapping[str, str]:
        return {"threads": "1"}


class Subject:
    def __init__(self, tokens: int) -> None:
        self.x = np.arange(tokens * _ELEMENTS, dtype=np.float32) / 3
        self.x_bytes = self.x.nbytes
        self.traffic = self.copy_bytes = 2 * self.x.nbytes

    def yardsticks(self) -> Mapping[str, Yardstick]:
        return {"out": Yardstick(Pair(0.0, 0.0), Pair(0.0, 0.0), float(2 * self.x.max()), 4, unit=1e6)}

    def contender(self, name: str) -> Contender:
        if name == "numpy":
            return Contender(self.x, lambda x, out: np.multiply(x, 2, out=out))
        if name == "somebody":
            raise AbsentError("somebody is not installed")
        return Contender(self.x, doubles.BACKENDS.get(name, doubles.double))


class Contender:
    def __init__(self, x: np.ndarray, kernel: Callable[[np.ndarray, np.ndarray], object]) -> None:
        self._x, self._kernel = x, kernel

    def distances(self) -> Mapping[str, Distance]:
        out = np.full_like(self._x, np.nan)
        self._kernel(self._x, out)
        far, exact = out.astype(float) - 2.0 * self._x, 2.0 * self._x
        ratio = float(np.linalg.norm(far) / np.linalg.norm(exact))
        return {"out": Distance(Pair(float(np.abs(far).max()), ratio), bool(np.isfinite(out).all()))}

    def runs(self, copies: int) -> Sequence[Run]:
        return [self._run(self._x.copy()) for _ in range(copies)]

    def _run(self, x: np.ndarray) -> Run:
        out = np.empty_like(x)
        return lambda: self._kernel(x, out)


def _copy(size: int) -> Run:
    source = np.ones(size // 8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)
