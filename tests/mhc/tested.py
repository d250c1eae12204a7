"""The kernel under test, as the process that compares sees it: tensors in, tensors out, bytes in between."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import torch

from compiled import described
from constants import WITH_EQUATIONS
from draws import empty_of
from guards import opened
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit import hold
from tensors import from_numpy, to_numpy

_SPARE = 128 << 20  # bytes by which the kernel's process may grow while it runs a kernel again and again
# What a compiled kernel may use of PyTorch in addition to allocating and moving: small sums over partial results.
_OPERATORS = {"add_", "sum", "mul_"}


class MisbehavedError(Exception):
    """A kernel did something else than to compute its outputs. The text says what."""

    stage = "launch"


class UnderTest:
    """One kernel of the backend, with its variants, in a process of its own."""

    def __init__(self, case: RunningCase, tokens: int | None = None) -> None:
        """``tokens`` is the number of tokens that a variant is chosen for; by default the case's number."""
        self._case = case
        self._kept: list[int] = []  # bytes of a GPU's memory that each run has kept
        self._seen: set[Any] = set()  # what the kernel has run on, but for the values of tensors
        self._kernel = described(case, tokens)

    def variants(self, inputs: Any) -> list[str]:
        """Return the variants that support the inputs; the one that is chosen has an empty name and is the first."""
        names, _ = self._call("variants", inputs)
        return [str(name) for name in names]

    def run(self, inputs: Any, variant: str = "", *, checked: bool = False) -> Any:
        """Run the kernel and return its outputs. With ``checked``, look at everything else that it did, too.

        Raises:
            MisbehavedError: it wrote past an end, changed its inputs or the process, or computed with PyTorch.
        """
        secret, children = secrets.randbits(64), self._case.kernel_children()
        facts, arrays = self._call("run", inputs, variant=variant, secret=secret, checked=checked)
        if self._is_compiled(inputs, variant) and self._case.kernel_children() != children:
            raise MisbehavedError("another process worked while the kernel ran")
        self._kept.append(int(facts["kept_on_device"]))
        if changed := facts["changed"]:
            raise MisbehavedError(f"the kernel changed {', '.join(changed)}")
        if operators := set(facts["operators"]) - _OPERATORS:
            raise MisbehavedError(f"the kernel computes with PyTorch: {', '.join(sorted(operators))}")
        expected = empty_of(self._case, inputs)
        outputs = []
        for name, like in expected._asdict().items():
            outputs.append(None if like is None else _output(name, like, arrays, secret))
        if checked:
            self._look_at(facts, arrays, inputs, secret)
        return type(expected)(*outputs)

    def _is_compiled(self, inputs: Any, variant: str) -> bool:
        """Return whether nothing is left to be compiled for these inputs, so that no other process has work to do.

        A device may be emulated by another process, and Inductor's compilers are processes that stay.
        """
        like = (variant, *(tuple(value.shape) if isinstance(value, torch.Tensor) else value for value in inputs))
        known, by_process = like in self._seen, self._case.action == "emulate" and not self._case.interpreted
        self._seen.add(like)
        return known and not by_process and self._case.backend not in WITH_EQUATIONS

    def check_memory(self, inputs: Any, outputs: Any, before: int | None) -> None:
        """Compare what the process holds now with what it held ``before``.

        Raises:
            MisbehavedError: it grew by more than the tensors of several runs.
        """
        tensors = [tensor for tensor in (*inputs, *outputs) if isinstance(tensor, torch.Tensor)]
        spare = _SPARE + 8 * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if (kept := sum(self._kept[1:])) > spare:  # the first run may make what all runs use
            raise MisbehavedError(f"the kernel holds {kept >> 20} MiB more of the device's memory after a few runs")
        now = self._case.kernel_memory()
        if now is None or before is None:
            return
        if now - before > spare:
            raise MisbehavedError(f"the kernel's process holds {(now - before) >> 20} MiB more after a few runs")

    def check_through_torch(self, inputs: Any) -> None:
        """Check that torch.ops and autograd give the bits that the kernel gives.

        Raises:
            AssertionError: they do not.
        """
        differing, _ = self._call("through_torch", inputs)
        hold(not differing, f"through torch.ops and autograd: other results in {', '.join(differing)}")

    def check_in_threads(self, inputs: Any) -> None:
        """Check that the kernel gives the same bits while another thread runs it on other inputs.

        Raises:
            AssertionError: it does not.
        """
        differing, _ = self._call("in_threads", inputs)
        hold(not differing, f"while another thread runs the kernel: other bits in {', '.join(differing)}")

    def race(self, inputs: Any, repeats: int) -> list[dict[str, Array]]:
        """Time the kernel and the reference, record the times, and return the outputs of ``repeats`` further runs."""
        value, arrays = self._call("race", inputs, repeats=repeats)
        self._case.record_race(value["times"])
        self._case.facts["threads"] = str(value["threads"])
        rounds: list[dict[str, Array]] = [{} for _ in range(repeats)]
        for name, array in arrays.items():
            repeat, _, output = name.partition(" ")
            rounds[int(repeat)][output] = array
        return rounds

    def _call(self, function: str, inputs: Any, **options: Any) -> tuple[Any, dict[str, Array]]:
        fields = inputs._asdict()
        arrays = {name: to_numpy(value) for name, value in fields.items() if isinstance(value, torch.Tensor)}
        values = {name: value for name, value in fields.items() if name not in arrays}
        described = {"class": type(inputs).__name__, "values": values}
        return self._case.call(f"kernel_side:{function}", arrays, kernel=self._kernel, inputs=described, **options)

    def _look_at(self, facts: dict[str, Any], arrays: dict[str, Array], inputs: Any, secret: int) -> None:
        if overrun := facts["overrun"]:
            raise MisbehavedError(f"the kernel wrote past the end of its scratch: {', '.join(overrun)}")
        for name, value in inputs._asdict().items():
            if isinstance(value, torch.Tensor):
                back, intact = opened(arrays[f"input {name}"], tuple(value.shape), value.element_size(), secret)
                if not intact:
                    raise MisbehavedError(f"the kernel wrote past the end of its input {name}")
                if not np.array_equal(back, to_numpy(value).reshape(-1).view(np.uint8)):
                    raise MisbehavedError(f"the kernel changed its input {name}")


def _output(name: str, like: torch.Tensor, arrays: dict[str, Array], secret: int) -> torch.Tensor:
    if name not in arrays:
        raise MisbehavedError(f"the output {name} did not come back")
    data, intact = opened(arrays[name], tuple(like.shape), like.element_size(), secret)
    if not intact:
        raise MisbehavedError(f"the kernel wrote past the end of its output {name}")
    return from_numpy(data).view(like.dtype).view(like.shape)
