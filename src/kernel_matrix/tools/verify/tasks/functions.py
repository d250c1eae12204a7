"""Read a function against a function: ``package.module:function``, with one that returns the arguments."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_matrix.tools.verify.tasks.calls import Calls, Step, of_values
from kernel_matrix.tools.verify.tasks.task import UnusableError


class Functions(Calls):
    """A task whose reference and inputs are functions of modules that can be imported here."""

    def __init__(self, reference: str, inputs: str, candidate: str) -> None:
        """``inputs`` names the function that returns a list of arguments; it draws by PyTorch's generator.

        Raises:
            UnusableError: one cannot be imported.
        """
        super().__init__(candidate.partition(":")[2], {}, reference)
        sys.path.insert(0, str(Path.cwd()))
        self._reference, self._inputs = _found(reference), _found(inputs)

    def right(self, *arguments: Any, **words: Any) -> Any:
        """Return what the reference gives."""
        return self._reference(*arguments, **words)

    def steps(self) -> tuple[list[Step], list[str]]:
        """Return the inputs as they are drawn, and by maps of their values."""
        return list(of_values(lambda _: (list(self._inputs()), {}))), []


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
