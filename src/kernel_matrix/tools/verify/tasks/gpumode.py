"""Read GPU MODE's form: a folder with ``task.yml``, ``reference.py`` and what lies beside it; ``custom_kernel``."""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import reason_of
from kernel_matrix.tools.verify.tasks.calls import Calls, Drawn, Step, loaded, named_in, of_values
from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError

FILE = "task.yml"
_SECONDS, _LEAST = 0.3, 4  # of a call whose sizes are kept; the smallest number that is a size
_NOT_HERE = ("submission", "reference", "eval")  # modules that a candidate does not get
_SIZES = 4  # other sizes than the first test's


class GpuMode(Calls):
    """A task of GPU MODE's contests."""

    form = "GPU MODE"

    def __init__(self, folder: Path) -> None:
        """Read the folder.

        Raises:
            UnusableError: a file is not there, or cannot be read.
        """
        text = _text(folder / FILE)
        self._tests = [one for part in ("tests", "benchmarks") for one in _entries(text, part)]
        files = {str(one.get("name", "")): str(one.get("source", "")) for one in _entries(text, "files")}
        named = {Path(name).stem: folder / source for name, source in files.items() if source.endswith(".py")}
        named = {"reference": folder / "reference.py", **named}
        beside = {name: _text(path) for name, path in named.items() if name not in _NOT_HERE}
        source = _text(named["reference"])
        super().__init__("custom_kernel", beside, source)
        module = loaded(_without_cards(source), "reference", {n: _without_cards(one) for n, one in beside.items()})
        self._generate, self._kernel = named_in(module, ("generate_input", "ref_kernel"))
        # A checker that is written by hand may ask for properties, which several answers have.
        self.properties = any(
            isinstance(node, ast.FunctionDef) and node.name == "check_implementation" for node in ast.parse(source).body
        )
        if not self._tests:
            raise UnusableError(f"{FILE} has no tests")

    def right(self, *arguments: Any, **words: Any) -> Any:
        """Return what the reference gives."""
        return self._kernel(*arguments, **words)

    def steps(self) -> tuple[list[Step], list[str]]:
        """Return the smallest test with other values, the other tests that are cheap here, and other sizes.

        Raises:
            UndecidedError: none is cheap here.
        """
        ordered = sorted(self._tests, key=_size)
        cheap = ordered[:1] if self._seconds(ordered[0]) < _SECONDS else []
        cheap += [one for one in ordered[1:] if cheap and self._seconds(one) < _SECONDS]
        first = cheap[0] if cheap else self._smaller(ordered[0])
        changed = {} if cheap else _changed(ordered[0], first)
        steps = list(of_values(self._draw(first), changed))
        steps += [Step(f"test {_words(one)}", self._draw(one)) for one in cheap[1:][:_SIZES]]
        others = [one for one in _others(first) if self._seconds(one) < _SECONDS][:_SIZES]
        steps += [Step(f"other sizes {_words(one)}", self._draw(one), sizes=_changed(first, one)) for one in others]
        left = [f"test {_words(one)}: it takes too long here" for one in ordered if one not in cheap]
        return steps, left

    def _draw(self, test: Mapping[str, Any]) -> Callable[[int], Drawn]:
        def draw(seed: int) -> Drawn:
            return [self._generate(**{**test, **({"seed": seed} if "seed" in test else {})})], {}

        return draw

    def _seconds(self, test: Mapping[str, Any]) -> float:
        """Return how long the reference takes for a test; for ever, where it fails or is large."""
        if _size(test) > 1 << 26:
            return float("inf")
        try:
            drawn, _ = self._draw(test)(self.seed())
            began = time.process_time()
            self._kernel(*drawn)
        except Exception:  # whatever a task raises for sizes that it does not take
            return float("inf")
        return time.process_time() - began

    def _smaller(self, test: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a test with smaller numbers that is cheap here."""
        for divisor in (2, 4, 8, 16, 32, 64, 128):
            trial = {n: max(_LEAST, one // divisor) if _is_size(n, one) else one for n, one in test.items()}
            if self._seconds(trial) < _SECONDS:
                return trial
        raise UndecidedError("no test of the task is cheap enough here")


def _is_size(name: str, value: Any) -> bool:
    return name != "seed" and type(value) is int and value >= _LEAST


def _size(test: Mapping[str, Any]) -> float:
    """Return the product of the numbers of a test that are sizes."""
    product = 1.0
    for name, one in test.items():
        product *= one if _is_size(name, one) else 1
    return product


def _others(test: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a test with other sizes: all a little more, each alone a little more, and each more than twice as large."""
    names = [name for name, one in test.items() if _is_size(name, one)]
    yield {**test, **{name: test[name] + 1 + 2 * place for place, name in enumerate(names)}}
    for name in names:
        yield {**test, name: int(2.2 * test[name]) | 1}
        yield {**test, name: test[name] + 3}
        yield {**test, name: 2 * test[name]}


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (before[name], now[name]) for name in before if before[name] != now[name]}


def _words(test: Mapping[str, Any]) -> str:
    return " ".join(f"{name} {one}" for name, one in test.items() if name != "seed")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableError(f"{path.name} cannot be read: {reason_of(error)}") from error


def _entries(text: str, section: str) -> list[dict[str, Any]]:
    """Return the mappings of a list of ``task.yml``, each of which stands in one line.

    Raises:
        UnusableError: one cannot be read.
    """
    found = re.search(rf"^{section}:[ \t]*\n((?:[ \t]*(?:-.*|#.*)?\n?)*)", text, re.MULTILINE)
    entries = []
    for line in found.group(1).splitlines() if found else []:
        if not (content := line.strip().removeprefix("-").strip()) or content.startswith("#"):
            continue
        quoted = re.sub(r"([{,]\s*)([A-Za-z_]\w*)\s*:", r'\1"\2":', content.replace(";", ","))
        try:
            entries.append(dict(json.loads(quoted)))
        except (ValueError, TypeError) as error:
            raise UnusableError(f"{FILE}, {section}: no mapping in one line: {content[:80]}") from error
    return entries


class _Here(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.copy_location(ast.Constant("cpu"), node) if node.value in ("cuda", "cuda:0") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "cuda" and not node.args:
            return called.value
        return node


def _without_cards(text: str) -> str:
    """Return a text that asks for the CPU where it asks for a card: the judge computes there."""
    return ast.unparse(ast.fix_missing_locations(_Here().visit(ast.parse(text))))
