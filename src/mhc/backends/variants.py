"""Variants: several kernels for one operator in one direction. A table chooses one of them.

A backend that has one kernel for everything needs none of this. Where another kernel is better for some targets, shapes
or precisions, the entry of ``KERNELS`` is a :class:`Variants`; :func:`with_variants` makes it. The table is
``variants.toml`` next to the backend's ``operators.py``, one ``[[choice]]`` for each rule, and the first rule that
holds decides::

    [[choice]]
    op = "mhc_pre"                    # a name, or a list of names
    direction = "forward"             # left out: both
    target = ["sm_90", "sm_100"]      # patterns of fnmatch
    precision = "tf32"                # any field of the specialisation: a value, or a list of values
    hidden = { most = 8192 }          # or, of an integer, the least or the most, or both
    tokens = { least = 64 }           # and the number of tokens, which the first tensor has before its last two
                                      # dimensions
    variant = "tensor_cores"

Where no rule holds, or the variant of the rule does not support the inputs, the default runs: it is right everywhere.
A table with an unknown key, field, operator or variant is refused when the backend is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from mhc.backends import Artifact, Kernel
from mhc.backends.rules import Rule, rules_of

TargetOf = Callable[[torch.device], str | None]


class Variant(Kernel, Protocol):
    """One kernel among several; where it runs, ``supports`` says."""

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` with no device."""


def no_target(_: torch.device) -> None:
    """Return None: the device has no name that a rule could be for."""


class Variants:
    """The kernels of one operator in one direction by name; the first is the default.

    It is a kernel itself: it runs and compiles the variant that it chooses. ``target_of`` returns the target that a
    device is, for rules that name a target, and None where it has no name.
    """

    def __init__(
        self,
        variants: Mapping[str, Variant],
        rules: tuple[Rule, ...] = (),
        target_of: TargetOf = no_target,
    ) -> None:
        """Take the variants and the rules between them.

        Raises:
            ValueError: a rule names a variant that there is not.
        """
        self.variants = dict(variants)
        for rule in rules:
            if rule.variant not in self.variants:
                raise ValueError(f"{rule.place}: there is no variant {rule.variant!r}; there are {', '.join(variants)}")
        self._rules = rules
        self._target_of = target_of
        self._default = next(iter(self.variants))
        self._counts = any(rule.tokens is not None for rule in rules)
        each = variants.values()
        self.any_leading_dims = all(getattr(one, "any_leading_dims", False) for one in each)
        self.adds_to_first = all(getattr(one, "adds_to_first", False) for one in each)
        self._of_device: dict[tuple[Any, ...], Variant] = {}

    def choose(self, spec: Any, target: str | None, tokens: int | None = None) -> str:
        """Return the name of the variant that runs this specialisation with so many tokens on ``target``."""
        for rule in self._rules:
            if rule.holds(spec, target, tokens):
                variant = self.variants[rule.variant]
                return self._default if variant.supports(spec, target, tokens) else rule.variant
        return self._default

    def supported(self, spec: Any, target: str | None, tokens: int | None = None) -> dict[str, Variant]:
        """Return the variants that can run this specialisation on ``target``, the chosen one first."""
        chosen = self.choose(spec, target, tokens)
        names = (chosen, *(name for name in self.variants if name != chosen))
        return {name: self.variants[name] for name in names if not self.variants[name].supports(spec, target, tokens)}

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the chosen variant cannot run the specialisation on ``target``, or None where it can."""
        return self.variants[self.choose(spec, target, tokens)].supports(spec, target, tokens)

    def target_on(self, device: torch.device) -> str | None:
        """Return the target that a device is, None where it has no name."""
        return self._target_of(device)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Run the variant that is chosen for the inputs and the target, or for the device that holds the inputs."""
        return self.of_inputs(inputs, target).run(inputs, out, target)

    def of_inputs(self, inputs: Any, target: str | None = None) -> Variant:
        """Return the variant that runs these inputs; the choice is made once for each kind of them."""
        first, spec = inputs[0], inputs.spec
        tokens = first.shape[:-2].numel() if self._counts else None
        key = (spec, first.device, tokens, target)
        variant = self._of_device.get(key)
        if variant is None:
            name = self.choose(spec, self._target_of(first.device) if target is None else target, tokens)
            variant = self._of_device[key] = self.variants[name]
        return variant

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile the variant that is chosen for ``target``, whatever the number of tokens."""
        return self.variants[self.choose(spec, target)].compile(spec, target)


def with_variants(
    kernels: Mapping[tuple[str, str], Kernel | Mapping[str, Variant]],
    specs: Mapping[str, type[Any]],
    folder: Path,
    target_of: TargetOf = no_target,
) -> dict[tuple[str, str], Kernel]:
    """Return the table of a backend, where each mapping of variants has become one kernel that chooses among them.

    ``specs`` are the specialisations of the operators that have variants, and ``folder`` holds ``variants.toml``.

    Raises:
        ValueError: the table of choices is wrong; the text begins with the place.
    """
    rules = rules_of(folder / "variants.toml", specs)
    for rule in rules:
        for kind in ((op, direction) for op in rule.ops for direction in rule.directions):
            one_alone = kind not in kernels and len(rule.directions) > 1  # the operator has no backward
            if not one_alone and not isinstance(kernels.get(kind), Mapping):
                raise ValueError(f"{rule.place}: {' '.join(kind)} has no variants")
    table: dict[tuple[str, str], Kernel] = {}
    for (op, direction), kernel in kernels.items():
        if isinstance(kernel, Mapping):
            own = tuple(rule for rule in rules if op in rule.ops and direction in rule.directions)
            kernel = Variants(kernel, own, target_of)
        table[op, direction] = kernel
    return table
