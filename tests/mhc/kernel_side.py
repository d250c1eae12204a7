"""Do the suite's work in the kernel's process: import the backend, run it on the arrays that come, compile, time.

The process that compares calls these functions by name and never imports this module. It gets the raw bytes of the
outputs, with the guards around them. The checks that can only be made here, in the kernel's process, find accidents; a
kernel that wants to could forge them. What it cannot reach is the inputs, the golden and the comparison.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

import surroundings
from constants import OTHER_CODE, PARAMETERS, WITH_EQUATIONS
from draws import OPS, allocated, spec_of
from guards import Guarded, Scratch
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.race import race as race_in_turns
from kernel_matrix.job.worker import Unavailable, enter_stage
from kernel_matrix.kit import together
from kernel_matrix.kit.frameworks import torch_calls
from mhc.backends import Artifact, NoDeviceError, load
from mhc.backends.variants import Variants
from mhc.toolchain import gfx
from tensors import from_numpy

Answer = tuple[Any, Mapping[str, Array]]

# The emulated GPUs that run every variant, in cases of OTHER_CODE tokens and more. The others run the chosen one alone.
EVERY_VARIANT = ("gfx942", "gfx1100")

_imported: set[str] = set()  # the backends that this process has imported
_raced: dict[str, Any] = {}  # the kernel and the tensors of the last race


def variants(arrays: Mapping[str, Array], *, kernel: dict[str, Any], inputs: dict[str, Any]) -> Answer:
    """Import the backend; return the names of the variants that support these inputs, the chosen one first."""
    target = kernel["target"]
    chosen = kernels_of(kernel_of(kernel), _inputs(arrays, kernel, inputs).spec, target, kernel["tokens"])
    is_emulated_gpu = kernel["device"] == "cpu" and gfx.emulates(target)
    is_alone = is_emulated_gpu and (target not in EVERY_VARIANT or kernel["tokens"] < OTHER_CODE)
    return list(chosen)[: 1 if is_alone else None], {}


def run(
    arrays: Mapping[str, Array],
    *,
    kernel: dict[str, Any],
    inputs: dict[str, Any],
    variant: str,
    secret: int,
    checked: bool,
) -> Answer:
    """Run one variant into guarded outputs, and return their bytes.

    ``secret`` determines the guards' bytes. With ``checked``, everything that the kernel allocates is poisoned and
    guarded too, and the inputs come back, so that a kernel that has changed them is seen. PyTorch's operators are noted
    in every run.
    """
    backend = kernel_of(kernel)
    device = torch.device(kernel["device"])
    given, guarded = _guarded_inputs(arrays, kernel, inputs, device, secret)
    chosen = kernels_of(backend, given.spec, kernel["target"], kernel["tokens"])[variant]
    like = _empty(kernel, given)
    outputs = {name: Guarded.empty(tensor, secret) for name, tensor in like._asdict().items() if tensor is not None}
    out = type(like)(*(outputs[name].tensor if name in outputs else None for name in like._fields))
    before, memory = surroundings.of_process(), _device_memory(device)
    own = kernel["backend"] in WITH_EQUATIONS
    scratch = Scratch(device, own_operators=own) if checked else None
    enter_stage("launch")
    try:
        with scratch or contextlib.nullcontext(), contextlib.nullcontext(()) if own else torch_calls.noted() as called:
            chosen.run(given, out, kernel["target"])
            _wait(device)
    except NoDeviceError as reason:
        raise Unavailable(str(reason)) from None
    finally:  # after an error, too: the next case is not concerned
        changed = surroundings.restore(before)
    facts = {
        "changed": changed,
        "overrun": scratch.overrun() if scratch else [],
        "operators": sorted(called),
        "kept_on_device": 0 if checked else _device_memory(device) - memory,  # a checked run keeps what it allocates
    }
    results = {name: output.bytes() for name, output in outputs.items()}
    if checked:
        results |= {f"input {name}": tensor.bytes() for name, tensor in guarded.items()}
    return facts, results


def through_torch(arrays: Mapping[str, Array], *, kernel: dict[str, Any], inputs: dict[str, Any]) -> Answer:
    """Call the operator as users do, and the kernel; return the names of the results whose bits differ.

    A forward goes through ``torch.ops``. A backward goes through autograd: the backend's own forward saves what its
    backward needs, so the kernel is run on what that forward gives.
    """
    import through_autograd

    backend = kernel_of(kernel)
    given = _inputs(arrays, kernel, inputs, torch.device(kernel["device"]))
    differing = through_autograd.differences(kernel, backend, given, _empty)
    return differing, {}


def in_threads(arrays: Mapping[str, Array], *, kernel: dict[str, Any], inputs: dict[str, Any]) -> Answer:
    """Run the kernel in two threads at once, each on its inputs; return the names of the outputs with other bits.

    The second has the same tokens in the reverse order.
    """
    backend, device = kernel_of(kernel), torch.device(kernel["device"])
    given = _inputs(arrays, kernel, inputs, device)

    def once(values: Any) -> dict[str, bytes]:
        out = _empty(kernel, values)
        backend.run(values, out, kernel["target"])
        _wait(device)
        return {name: _bytes(tensor).tobytes() for name, tensor in out._asdict().items() if tensor is not None}

    return together.differing(once, (given, reversed_tokens(given))), {}


def reversed_tokens(inputs: Any) -> Any:
    """Return the inputs with their tokens in the reverse order."""
    tokens, values = inputs[0].shape[0], inputs._asdict()
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and name not in PARAMETERS and value.shape[0] == tokens:
            values[name] = value.flip(0)
    return type(inputs)(**values)


def compile_ahead(_: Mapping[str, Array], *, kernel: dict[str, Any], axes: dict[str, Any]) -> Answer:
    """Compile the variant that is chosen for the target, and return the artifact."""
    chosen, spec = _chosen(kernel, axes)
    enter_stage("compile")
    artifact = compile_once(chosen, spec, kernel["target"])
    if isinstance(artifact, Exception):
        raise artifact.with_traceback(None)
    return _told(artifact)


def code_that_ran(_: Mapping[str, Array], *, kernel: dict[str, Any], axes: dict[str, Any]) -> Answer:
    """Return the artifact that the chosen variant has run, where the backend has it.

    Numbers that are right stay so where nobody can tell what the code needs, so an error is only a fact of the case.
    """
    chosen, spec = _chosen(kernel, axes)
    try:
        artifact = chosen.code(spec, kernel["target"]) if hasattr(chosen, "code") else None
    except Exception as error:
        return {"facts": {"code": f"not known: {type(error).__name__}: {error}"}}, {}
    return ({}, {}) if artifact is None else _told(artifact)


def _chosen(kernel: dict[str, Any], axes: dict[str, Any]) -> tuple[Any, Any]:
    """Return the kernel that is chosen for a case, and the specialisation."""
    backend, spec = kernel_of(kernel), spec_of(kernel["op"], axes)
    return next(iter(kernels_of(backend, spec, kernel["target"], axes["tokens"]).values())), spec


def _told(artifact: Artifact) -> Answer:
    data = {"data": np.frombuffer(artifact.data, np.uint8)}
    return {"kind": artifact.kind, "resources": artifact.resources}, data


def race(arrays: Mapping[str, Array], *, kernel: dict[str, Any], inputs: dict[str, Any], repeats: int) -> Answer:
    """Time the kernel and the reference in turns; return the times, and the outputs of ``repeats`` further runs.

    The tensors stay for :func:`run_raced`.
    """
    backend, device = kernel_of(kernel), torch.device(kernel["device"])
    given = _inputs(arrays, kernel, inputs, device)
    out = _empty(kernel, given)
    with surroundings.reference_allowed():
        reference = load("reference", kernel["op"], kernel["direction"])
    target = kernel["target"]

    def launch(which: Any) -> None:
        which.run(given, out, target)
        _wait(device)

    enter_stage("launch")
    times = race_in_turns(lambda: launch(backend), lambda: launch(reference), rest=device.type == "cpu")
    results: dict[str, Array] = {}
    for repeat in range(repeats):
        for tensor in out:
            if tensor is not None:
                tensor.fill_(float("nan"))
        launch(backend)
        results |= {f"{repeat} {name}": _bytes(tensor) for name, tensor in out._asdict().items() if tensor is not None}
    surroundings.forget_reference(kernel["backend"] in WITH_EQUATIONS)
    _raced.clear()
    _raced.update({"backend": backend, "inputs": [given], "out": out, "target": target, "device": device})
    return {"times": times, "threads": torch.get_num_threads()}, results


def vary_raced(_: Mapping[str, Array], *, added: list[float]) -> Answer:
    """Make variants of the inputs of the last race: a number of ``added`` is added to the whole first input of each."""
    [given] = _raced["inputs"]
    _raced["inputs"] = [given._replace(**{given._fields[0]: given[0] + number}) for number in added]
    _wait(_raced["device"])
    return None, {}


def run_raced(_: Mapping[str, Array], *, firsts: list[float]) -> Answer:
    """Run the kernel of the last race once for each number of ``firsts``, the first element of the first input.

    The runs take the variants of the inputs in turns.
    """
    backend, variants, device = _raced["backend"], _raced["inputs"], _raced["device"]
    places = [inputs[0].view(-1)[:1] for inputs in variants]
    for run, first in enumerate(firsts):
        variant = run % len(variants)
        places[variant].fill_(first)
        backend.run(variants[variant], _raced["out"], _raced["target"])
        _wait(device)
    return None, {}


def outputs_raced(_: Mapping[str, Array]) -> Answer:
    """Return the bytes of the outputs of the last run of :func:`run_raced`, and forget its tensors."""
    out = _raced["out"]
    _raced.clear()
    return None, {name: _bytes(tensor) for name, tensor in out._asdict().items() if tensor is not None}


def kernel_of(kernel: dict[str, Any]) -> Any:
    """Import the backend and return its kernel; the reference cannot be imported by another backend from then on."""
    if kernel["backend"] not in WITH_EQUATIONS:
        surroundings.forbid_reference()
    if kernel["backend"] not in _imported:
        enter_stage("import")
    backend = load(kernel["backend"], kernel["op"], kernel["direction"])
    _imported.add(kernel["backend"])
    return backend


def kernels_of(backend: Any, spec: Any, target: str | None, tokens: int) -> dict[str, Any]:
    """Return the kernel that is chosen for these inputs, by an empty name, and the other variants that support them.

    An output of another variant is recorded with the variant's name: ``h_in@tensor_cores``.
    """
    if not isinstance(backend, Variants):
        return {"": backend}
    chosen, *others = backend.supported(spec, target, tokens).items()
    return {"": chosen[1], **{f"@{name}": kernel for name, kernel in others}}


@cache
def compile_once(backend: Any, spec: Any, target: str) -> Artifact | Exception:
    """Cases that differ in tokens, scale or seed share a kernel: compile it, or fail to, once."""
    try:
        return backend.compile(spec, target)
    except Exception as error:  # any error is the result of the compilation
        return error


def _inputs(
    arrays: Mapping[str, Array], kernel: dict[str, Any], inputs: dict[str, Any], device: torch.device | None = None
) -> Any:
    tensors = {name: from_numpy(array).to(device) for name, array in arrays.items()}
    return _of_class(kernel, inputs, tensors)


def _guarded_inputs(
    arrays: Mapping[str, Array], kernel: dict[str, Any], inputs: dict[str, Any], device: torch.device, secret: int
) -> tuple[Any, dict[str, Guarded]]:
    guarded = {name: Guarded.copy_of(from_numpy(array), device, secret) for name, array in arrays.items()}
    return _of_class(kernel, inputs, {name: value.tensor for name, value in guarded.items()}), guarded


def _of_class(kernel: dict[str, Any], inputs: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    kind = getattr(OPS[kernel["op"]], inputs["class"])
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in inputs["values"].items()}
    return kind(**values, **tensors)


def _empty(kernel: dict[str, Any], given: Any) -> Any:
    return allocated(kernel["op"], kernel["direction"], given)


def _device_memory(device: torch.device) -> int:
    """Return the bytes of a GPU that PyTorch's tensors hold in this process."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _bytes(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().reshape(-1)
