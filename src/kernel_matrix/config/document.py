"""The YAML text of matrix.yaml with its line numbers, so that each fault names its line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError, MaxDepthExceededError
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from kernel_matrix.base.errors import UserError

Place = tuple[str | int, ...]  # keys and indexes, from the top of the document
Fault = tuple[Place, str]  # where, and what is wrong there

# What no matrix.yaml of people comes near: this repository's has 33 kB, 8 levels and 2,300 values.
_BYTES, _LEVELS, _VALUES = 2**20, 40, 100_000


def _elsewhere(path: Path) -> str:
    """Return which files of the kind are near one that is missing: of another name, above or below."""
    here = path.resolve().parent
    near = [*here.glob("*.matrix.yaml"), *(folder / path.name for folder in here.parents), *here.glob(f"*/{path.name}")]
    found = [os.path.relpath(file, here) for file in near if file.is_file()]
    return f", such as {found[0]}" if found else ""


class Document:
    """A YAML file that holds a mapping of sections."""

    def __init__(self, path: Path) -> None:
        """Read ``path``.

        Raises:
            UserError: the file cannot be read, is not YAML, or is not a mapping.
        """
        self.path = path
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise UserError(
                f"{path}: there is no such file, and it says what is tested: `kernel-matrix init` writes one for this "
                f"repository that has tests, and --matrix FILE names one that lies elsewhere{_elsewhere(path)}."
            ) from None
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}. It is the matrix's only configuration.") from None
        if len(content) > _BYTES:
            raise UserError(f"{path.name}:1: it has {len(content)} bytes, and {_BYTES} is the most. Take some out.")
        try:
            self.root, self._node = parsed(content.decode())
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UserError(f"{path.name}:{line}: this is no text in UTF-8. Save the file in UTF-8.") from None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problem = (error.problem or "not YAML").splitlines()[0].split(" with value ")[0]
            if isinstance(error, MaxDepthExceededError):
                problem = f"there are more than {_LEVELS} levels"
            raise UserError(f"{path.name}:{line}: {problem}. Correct the YAML at this line.") from None
        except YAMLError as error:  # a character that YAML does not have
            line = content.decode()[: getattr(error, "position", 0)].count("\n") + 1
            raise UserError(f"{path.name}:{line}: {getattr(error, 'reason', error)}. Take them out.") from None
        if not isinstance(self.root, dict):
            raise UserError(f"{path.name}:1: this is not a mapping of sections; see matrix.schema.json.")

    def line(self, place: Place) -> int:
        """Return the line of the deepest part of ``place`` that the text has."""
        lines = [begin.start_mark.line for _, begin, _ in self._parts(place)]
        return int(lines[-1]) + 1 if lines else 1

    def dotted(self, place: Place) -> str:
        """Return the parts of ``place`` that the text has, such as ``platforms.rocm.targets[1]: ``."""
        texts = (f".{key}" if isinstance(node, MappingNode) else f"[{key}]" for key, _, node in self._parts(place))
        return f"{text.removeprefix('.')}: " if (text := "".join(texts)) else ""

    def _parts(self, place: Place) -> Iterator[tuple[str | int, Node, Node]]:
        """Yield the keys of ``place`` that the text has, each with the node where it begins and the node around it."""
        node = self._node
        for key in place:  # also a part that the model adds, such as the branch of a union
            found: list[tuple[Node, Node]] = []
            if isinstance(node, MappingNode):
                found = [pair for pair in node.value if pair[0].value == str(key)]
            elif isinstance(node, SequenceNode) and isinstance(key, int):
                found = [(part, part) for part in node.value[key : key + 1]]
            if node and found:
                begin, part = found[-1]
                yield key, begin, node
                node = part

    def error(self, faults: Iterable[Fault]) -> UserError:
        """Return the error that names each fault in a line of its own, in the order of the file."""
        lines = sorted({(self.line(place), self.dotted(place), text) for place, text in faults})
        return UserError("\n".join(f"{self.path.name}:{line}: {dotted}{text}" for line, dotted, text in lines))


@lru_cache(maxsize=8)  # a command reads the same file with tests and without
def parsed(text: str) -> tuple[Any, Node | None]:
    """Return what a YAML text holds, and its node, which knows the lines.

    Raises:
        YAMLError: it is not YAML, or more than anybody writes.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Constructor, yaml.max_depth = _Composer, _Constructor, _LEVELS
    node = yaml.compose(text)
    return yaml.constructor.construct_document(node) if node else None, node


class _Composer(Composer):
    """Refuse an alias in the value that it names, and aliases that stand for more values than anybody writes."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self._open: list[Node] = []  # the nodes that the next value lies in
        self._values: dict[int, int] = {}  # how many values each node has, its aliases' values included

    def compose_node(self, parent: Node | None, index: Any) -> Any:
        """Return the next value."""
        if parent is None:
            return super().compose_node(parent, index)
        mark = self.parser.peek_event().start_mark
        self._open.append(parent)
        node = super().compose_node(parent, index)
        if any(node is one for one in self._open):
            raise ComposerError(None, None, "this alias stands inside of the value that it names", mark)
        self._open.pop()
        values = self._values[id(parent)] = self._values.get(id(parent), 1) + self._values.get(id(node), 1)
        if values > _VALUES:
            raise ComposerError(None, None, f"there are more than {_VALUES} values, each alias counted", mark)
        return node


class _Constructor(SafeConstructor):
    """Name the line of a number or date that Python or the matrix cannot hold."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return the value of a node."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            told = isinstance(error, ValueError)  # else a tag has a value that it cannot have, and ruamel fails
            tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")
            problem = str(error).partition(";")[0] if told else f"this is no {tag}"
            raise ConstructorError(None, None, problem, node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > 64:
            raise ConstructorError(None, None, "this number has more than 64 bits", node.start_mark)
        return value
