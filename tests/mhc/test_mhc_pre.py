"""``mhc_pre`` against its float64 golden."""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType

import pytest
import torch

from kernel_matrix.inputs import digest
from kernel_matrix.plugin import RunningCase
from mhc.backends import Artifact, load
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec, empty_outputs
from tensors import DTYPES, to_numpy


def draw_inputs(case: RunningCase) -> MhcPreInputs:
    """Inputs of a layer near its initialisation, with a gamma that is not one and three different gates.

    h_pre lies under 1/n and varies little, so that at unit scale h_in stays below 4: from there on the rounding of an
    exact result to bf16 alone would be above the project's cap.
    """
    axes = case.axes
    tokens, n, hidden = axes["tokens"], axes["streams"], axes["hidden"]
    mixes, width = n * (n + 2), n * hidden

    def parameter(name: str, shape: tuple[int, ...], scale: float, mean: float = 0.0) -> torch.Tensor:
        return torch.from_numpy(case.draw(name, shape, scale=scale, mean=mean)).float()

    bias = parameter("bias", (mixes,), 0.2)
    bias[:n] += -math.log(n - 1) - 1.0 if n > 1 else 1.0
    return MhcPreInputs(
        x=torch.from_numpy(case.draw("x", (tokens, n, hidden), scale=axes["scale"])).to(DTYPES[axes["dtype"]]),
        phi=parameter("phi", (mixes, width), 1 / math.sqrt(width)),
        alpha=parameter("alpha", (3,), 0.05, mean=0.4),
        bias=bias,
        gamma=parameter("gamma", (n, hidden), 0.3, mean=1.0) if axes["gamma"] else None,
    )


@pytest.mark.op("mhc_pre", "forward")
def test_forward_matches_the_golden(case: RunningCase) -> None:
    with case.stage("import"):
        backend = load(case.backend, case.op)
        golden, eager = load("reference", case.op).golden, load("reference", case.op).run
    if case.action == "compile":
        axes = case.axes
        spec = MhcPreSpec(axes["streams"], axes["hidden"], DTYPES[axes["dtype"]], axes["gamma"])
        with case.stage("compile"):
            artifact = compile_once(backend, spec, case.target)
            if isinstance(artifact, Exception):
                raise artifact.with_traceback(None)
        case.compiled(artifact.kind, artifact.data, artifact.resources)
        return
    inputs = draw_inputs(case)
    case.facts["inputs.sha256"] = digest(to_numpy(tensor) for tensor in inputs[:5] if tensor is not None)
    out, floor = nan_outputs(inputs.x.to(case.device)), nan_outputs(inputs.x)
    on_device = MhcPreInputs(
        *(None if tensor is None else tensor.to(case.device) for tensor in inputs[:5]), *inputs[5:]
    )
    with case.stage("launch"):
        backend.run(on_device, out, None if case.action == "emulate" else case.target)
        arrays = arrays_of(out)  # copying back waits for the device
    eager(inputs, floor)
    unit = float(case.axes["scale"])
    case.compare(arrays, arrays_of(golden(inputs)), arrays_of(floor), {"h_in": unit, "h_post": 1.0, "h_res": 1.0})


@cache
def compile_once(backend: ModuleType, spec: MhcPreSpec, target: str) -> Artifact | Exception:
    """Cases that differ in tokens, scale or seed share a kernel: compile it, or fail to, once."""
    try:
        return backend.compile(spec, target)
    except Exception as error:  # whatever it is, it is the result
        return error


def nan_outputs(x: torch.Tensor) -> MhcPreOutputs:
    """Outputs for ``x`` [tokens, n, hidden] that are NaN throughout, so that what is not written shows."""
    outputs = empty_outputs(x)
    for tensor in outputs:
        tensor.fill_(math.nan)
    return outputs


def arrays_of(outputs: MhcPreOutputs) -> dict[str, object]:
    return {name: to_numpy(tensor) for name, tensor in outputs._asdict().items()}
