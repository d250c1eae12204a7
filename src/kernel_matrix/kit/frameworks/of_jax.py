"""JAX. It allocates its arrays itself, so they have no guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.frameworks import of_numpy
from kernel_matrix.kit.frameworks.base import Call, Framework, State
from kernel_matrix.kit.replaced import functions_of


class Jax(Framework):
    """Arrays of JAX."""

    name = "jax"
    title = "JAX"
    lays = watches = False
    why_not = "JAX allocates the arrays, and packs them"
    settings = ("JAX's configuration",)
    layouts = ()

    def given(self, values: Array, device: str) -> Any:  # noqa: ARG002
        """Return values as an array on JAX's first device, in their dtype."""
        if values.dtype.itemsize == 8:
            jax.config.update("jax_enable_x64", True)
        return jnp.array(values)  # a copy: asarray may share memory with the one that comes

    def oddness(self, value: Any) -> str:
        """Return what makes an array another one than a caller expects."""
        if not isinstance(value, jax.Array):
            return f"is of the class {type(value).__name__}, for an array of JAX"
        return "is weakly typed: what it meets decides its dtype" if value.weak_type else ""

    def state(self) -> State:
        """Return the configuration, and what of NumPy belongs to the whole process."""
        return {
            **of_numpy.FRAMEWORK.state(),
            "JAX's configuration": (lambda: dict(jax.config.values), _set_configuration),
            "JAX's functions": _FUNCTIONS,
        }

    def results(
        self,
        call: Call,
        arrays: dict[str, Any],
        asked: Sequence[str] = (),
        incoming: Mapping[str, Any] | None = None,
        *,
        times: int = 1,
    ) -> list[dict[str, Any]]:
        """Return what a call gives, or its gradients by jax.vjp."""
        if not incoming:
            return [{name: _done(value) for name, value in call(arrays).items()}]
        leaves = [arrays[name] for name in asked]
        results, back = jax.vjp(lambda *given: call({**arrays, **dict(zip(asked, given, strict=True))}), *leaves)
        come = {
            name: incoming[f"grad_{name}"].astype(one.dtype)
            for name, one in results.items()
            if f"grad_{name}" in incoming
        }
        return [dict(zip(asked, map(_done, back(come)), strict=True)) for _ in range(times)]


def _done(value: Any) -> Any:
    return jax.block_until_ready(value)


def _set_configuration(state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        if jax.config.values[name] != value:
            jax.config.update(name, value)


_FUNCTIONS = functions_of(jax, jnp, jax.lax, jax.nn)
FRAMEWORK = Jax()
