"""The package's kernels, as the kit calls them in the kernel's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import Any

import torch

from draws import OTHER_CODE, WITH_LOGITS, logits_of, options_of
from kernel_matrix.kit import Compiled, Unavailable, enter_stage, sent
from mhc.backends import Artifact, NoDeviceError, load
from mhc.backends.variants import Variants
from mhc.toolchain import gfx
from protocol import class_of, inputs_and_outputs

Case = Mapping[str, Any]  # what the kit says of a case
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# The emulated GPUs that run every variant, in cases of OTHER_CODE tokens and more. The others run the chosen one alone.
EVERY_VARIANT = ("gfx942", "gfx1100")


def kernels(case: Case) -> dict[str, Callable[..., None]]:
    """Return the kernel that is chosen for a case, by an empty name, and the other variants that support it.

    An output of another variant is recorded with the variant's name: ``h_in@tensor_cores``.
    """
    chosen = variants_of(case, spec_of(case, case["options"]))
    is_emulated_gpu = case["device"] == "cpu" and gfx.emulates(case["target"])
    is_alone = is_emulated_gpu and (case["target"] not in EVERY_VARIANT or case["axes"]["tokens"] < OTHER_CODE)
    return {name: called(case, kernel) for name, kernel in list(chosen.items())[: 1 if is_alone else None]}


def called(case: Case, kernel: Any) -> Callable[..., None]:
    """Return how the kit calls a kernel: inputs, then outputs, and options."""
    last: list[Any] = []  # the tensors of the last call with what was made of them, for a race

    def call(*tensors: Any, **options: Any) -> None:
        made: Any = last[0] if last else ((), None)  # one value: another thread may put its own there
        if len(made[0]) != len(tensors) or not all(map(is_, made[0], tensors)):
            made = tensors, inputs_and_outputs(case["op"], case["direction"], tensors, options)
            last[:] = [made]
        inputs, out = made[1]
        try:
            kernel.run(inputs, out, case["target"])
        except NoDeviceError as reason:
            raise Unavailable(str(reason)) from None

    return call


def kernel_of(case: Case) -> Any:
    """Import the backend and return its kernel."""
    return load(case["backend"], case["op"], case["direction"])


def variants_of(case: Case, spec: Any) -> dict[str, Any]:
    """Return the variants that support a specialisation, the chosen one first."""
    backend = kernel_of(case)
    if not isinstance(backend, Variants):
        return {"": backend}
    chosen, *others = backend.supported(spec, case["target"], case["axes"]["tokens"]).items()
    return {"": chosen[1], **{f"@{name}": kernel for name, kernel in others}}


def spec_of(case: Case, options: Mapping[str, Any]) -> Any:
    """Return the specialisation that a case has with these options."""
    op, axes = case["op"], case["axes"]
    values = {name: value for name, value in options.items() if name != "streams"}
    if op == "sinkhorn":
        return class_of(op, "Spec")(axes["streams"], **values)
    if "precision" in values:
        values["gamma"] = axes["gamma"]
    if op in WITH_LOGITS:
        values["logits"] = logits_of(axes)
    return class_of(op, "Spec")(axes["streams"], axes["hidden"], DTYPES[axes["dtype"]], **values)


def compile_ahead(_: Any, *, case: Case) -> Any:
    """Compile the variant that is chosen for the target, and return the artifact."""
    chosen, spec = _chosen(case)
    enter_stage("compile")
    return _told(compile_once(chosen, spec, case["target"]))


def code_that_ran(_: Any, *, case: Case) -> Any:
    """Return the artifact that the chosen variant has run, where the backend has it."""
    chosen, spec = _chosen(case)
    return _told(chosen.code(spec, case["target"]) if hasattr(chosen, "code") else None)


def _chosen(case: Case) -> tuple[Any, Any]:
    """Return the kernel that is chosen for a case, and a specialisation that is the same at every scale."""
    spec = spec_of(case, options_of(case["op"], case["direction"], {**case["axes"], "scale": 1}))
    return variants_of(case, spec)[""], spec


@cache
def compile_once(backend: Any, spec: Any, target: str) -> Artifact | Exception:
    """Cases that differ in tokens, scale or seed share a kernel: compile it, or fail to, once."""
    try:
        return backend.compile(spec, target)
    except Exception as error:  # any error is the result of the compilation
        return error


def _told(artifact: Artifact | Exception | None) -> Any:
    if isinstance(artifact, Exception):
        raise artifact.with_traceback(None)
    return sent(Compiled(artifact.kind, artifact.data, artifact.resources) if artifact else {})
