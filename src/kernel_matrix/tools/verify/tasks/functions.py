"""Read a function against a function: ``package.module:function``, with one that returns the arguments."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from kernel_matrix.tools.verify.inside.candidate import flat, shaped
from kernel_matrix.tools.verify.tasks import making, values
from kernel_matrix.tools.verify.tasks.task import Case, UndecidedError, UnusableError, flattened, seeds

_VALUES = (
    *(("as drawn", ""), ("drawn again", ""), ("both signs", "signs"), ("the middle other", "middle")),
    *(("a row of zeros and a loud one", "loud"), ("small values", "small"), ("six times as large", "six")),
    *(("a hundred more", "shifted"), ("a hundred less", "less")),
)


class Functions:
    """A task whose reference and inputs are functions of modules that can be imported here."""

    form, patch = "function", False
    plain: tuple[str, str] | None = None

    def __init__(self, reference: str, inputs: str, candidate: str) -> None:
        """``inputs`` names the function that returns a list of arguments; it draws by PyTorch's generator.

        Raises:
            UnusableError: one cannot be imported.
        """
        sys.path.insert(0, str(Path.cwd()))
        self._reference, self._inputs = _found(reference), _found(inputs)
        self.entry = candidate.partition(":")[2]
        self.modules: Mapping[str, str] = {}
        self.notes: list[str] = []
        self._seed = seeds()

    def cases(self) -> tuple[list[Case], list[str]]:
        """Return the cases: the inputs as they are drawn, and by maps of their values."""
        done: list[Case] = []
        skipped: list[str] = []
        for name, kind in _VALUES:
            try:
                done.append(self._case(name, kind, self._seed(), whole=not done))
            except (UndecidedError, UnusableError):
                if not done:
                    raise
                skipped.append(f"{name}: the reference fails there")
            except ArithmeticError as error:
                skipped.append(f"{name}: {error}")
        if not done:
            raise UndecidedError("; ".join(skipped))
        return done, skipped

    def _drawn(self, seed: int, kind: str) -> list[Any]:
        torch.manual_seed(seed)
        drawn = list(self._inputs())
        return values.mapped(drawn, kind, seed) if kind else drawn

    def _case(self, name: str, kind: str, seed: int, *, whole: bool) -> Case:
        drawn = self._drawn(seed, kind)
        leaves: list[Any] = []
        call = {"args": [flattened(one, leaves) for one in drawn], "words": {}}

        def redraw(other: int) -> list[Any]:
            again: list[Any] = []
            for one in self._drawn(other, kind):
                flattened(one, again)
            return again

        def reference(*tensors: Any) -> list[Any]:
            with torch.set_grad_enabled(any(one.requires_grad for one in tensors)):
                return list(flat(self._reference(*shaped(call, tensors)[0])))

        grads = any(one.requires_grad for one in leaves)
        case = making.made(
            name, seed, {"args": drawn}, reference, redraw=redraw, differentiable=grads, steps=1000, whole=whole
        )
        making.check_finite(case)
        return case

    def program(self, case: Case, candidate: str) -> dict[str, str]:
        """Return no files: the functions are importable by who asks."""
        del case, candidate
        return {}


def _found(path: str) -> Callable[..., Any]:
    """Return ``package.module:function``.

    Raises:
        UnusableError: it cannot be imported.
    """
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise UnusableError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return found  # type: ignore[no-any-return]


def source_of(path: str) -> str:
    """Return the text of the module of a candidate, which is not imported here.

    Raises:
        UnusableError: there is none.
    """
    name = path.partition(":")[0]
    folder, *_ = name.split(".")
    for start in (Path.cwd(), *map(Path, sys.path)):
        for file in (start / f"{name.replace('.', '/')}.py", start / name.replace(".", "/") / "__init__.py"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    raise UnusableError(f"{path}: there is no module {name} in this folder or on Python's path ({folder})")
