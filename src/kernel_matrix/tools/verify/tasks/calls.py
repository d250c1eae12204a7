"""A task that is one function of drawn arguments: what the forms have in common that bring no module."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from kernel_matrix.tools.verify.inside.candidate import flat, seeded, shaped
from kernel_matrix.tools.verify.tasks import making, values
from kernel_matrix.tools.verify.tasks.task import Case, UndecidedError, UnusableError, flattened, seeds

Drawn = tuple[list[Any], dict[str, Any]]  # the arguments of a call, positional and by name
VALUES = (
    *(("as drawn", ""), ("drawn again", ""), ("both signs", "signs"), ("the middle other", "middle")),
    *(("a row of zeros and a loud one", "loud"), ("small values", "small"), ("six times as large", "six")),
    *(("a hundred more", "shifted"), ("a hundred less", "less")),
)


class Step(NamedTuple):
    """A case to make: how its arguments are drawn from a seed, the map of their values, and sizes that were changed."""

    name: str
    draw: Callable[[int], Drawn]
    kind: str = ""
    sizes: Mapping[str, tuple[int, int]] = types.MappingProxyType({})


class Calls:
    """A task whose reference is a function of the same arguments as the candidate."""

    form, patch, properties = "function", False, False
    plain: tuple[str, str] | None = None

    def __init__(self, entry: str, modules: Mapping[str, str], identity: str) -> None:
        """``entry`` is what the candidate is called, ``modules`` are texts that its form has beside it."""
        self.identity = identity
        self.entry, self.modules, self.seed = entry, modules, seeds()
        self.notes: list[str] = []

    def steps(self) -> tuple[list[Step], list[str]]:
        """Return the cases to make, and what is left out."""
        raise NotImplementedError

    def right(self, *arguments: Any, **words: Any) -> Any:
        """Return what the reference gives."""
        raise NotImplementedError

    def cases(self) -> tuple[list[Case], list[str]]:
        """Return the cases of the steps for which the reference gives finite numbers."""
        done: list[Case] = []
        steps, skipped = self.steps()
        for step in steps:
            try:
                done.append(self._case(step, whole=not done))
            except Exception as error:  # whatever a reference raises for other values
                skipped.append(f"{step.name}: {str(error)[:120]}")
        if not done:
            raise UndecidedError("; ".join(skipped[:3]) or "there is no input")
        return done, skipped

    def _case(self, step: Step, *, whole: bool) -> Case:
        seed = self.seed()
        arguments, words = _mapped(step, seed)
        leaves: list[Any] = []
        call = {
            "args": [flattened(one, leaves) for one in arguments],
            "words": {name: flattened(one, leaves) for name, one in words.items()},
        }

        def redraw(other: int) -> list[Any]:
            again: list[Any] = []
            flattened(list(_mapped(step, other)), again)
            return again

        def reference(*tensors: Any) -> list[Any]:
            given, named = shaped(call, tensors)
            wide = any(one.dtype == torch.float64 for one in tensors)
            with torch.set_grad_enabled(grads), making.Wide() if wide else contextlib.nullcontext():
                return list(flat(self.right(*given, **named)))

        grads = any(one.requires_grad for one in leaves)
        case = making.made(
            step.name, seed, {"args": arguments, "words": words}, reference,
            redraw=redraw, differentiable=grads, steps=1000, whole=whole, sizes=step.sizes,
        )  # fmt: skip
        making.check_finite(case)
        return case

    def program(self, case: Case, candidate: str) -> dict[str, str]:
        """Return no files: who asks has the function that is right."""
        del case, candidate
        return {}


def _mapped(step: Step, seed: int) -> Drawn:
    """Return the arguments of a step for a seed, with the values of its kind."""
    seeded(seed)
    arguments, words = step.draw(seed)
    if not step.kind:
        return arguments, words
    names = list(words)
    mapped = values.mapped([*arguments, *words.values()], step.kind, seed)
    return mapped[: len(arguments)], dict(zip(names, mapped[len(arguments) :], strict=True))


def of_values(draw: Callable[[int], Drawn], sizes: Mapping[str, tuple[int, int]] | None = None) -> Iterator[Step]:
    """Yield the steps of one call: as it is drawn, and with maps of its values."""
    return (Step(name, draw, kind, sizes or {}) for name, kind in VALUES)


def loaded(text: str, name: str, beside: Mapping[str, str] | None = None) -> types.ModuleType:
    """Return a text as a module, with texts of modules that it imports.

    Raises:
        UnusableError: it cannot be run.
    """
    kept = {one: sys.modules.get(one) for one in beside or {}}
    try:
        for one, content in (beside or {}).items():
            sys.modules[one] = _run(types.ModuleType(one), content)
        return _run(types.ModuleType(name), text)
    except Exception as error:
        raise UnusableError(f"the {name} cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        for one, module in kept.items():
            sys.modules.pop(one, None)
            if module is not None:
                sys.modules[one] = module


def _run(module: types.ModuleType, text: str) -> types.ModuleType:
    exec(compile(text, f"<{module.__name__}>", "exec"), module.__dict__)  # noqa: S102 (the user names it as right)
    return module


def named_in(module: types.ModuleType, names: Sequence[str]) -> list[Any]:
    """Return what a module calls by these names.

    Raises:
        UnusableError: one is not there.
    """
    if missing := [name for name in names if not hasattr(module, name)]:
        raise UnusableError(f"the {module.__name__} has no {', '.join(missing)}")
    return [getattr(module, name) for name in names]
