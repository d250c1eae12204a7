"""The YAML text of matrix.yaml with its line numbers, so that each fault names its line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from kernel_matrix.base.errors import UserError

Place = tuple[str | int, ...]  # keys and indexes, from the top of the document
Fault = tuple[Place, str]  # where, and what is wrong there


class Document:
    """A YAML file that holds a mapping of sections."""

    def __init__(self, path: Path) -> None:
        """Read ``path``.

        Raises:
            UserError: the file cannot be read, is not YAML, or is not a mapping.
        """
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(
                f"{path}: there is no such file, and it says what is tested: `kernel-matrix init` writes one for this "
                "repository, and --matrix FILE names one that lies elsewhere."
            ) from None
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}. It is the matrix's only configuration.") from None
        try:
            self.root: Any = YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problem = (error.problem or "not YAML").splitlines()[0].split(" with value ")[0]
            raise UserError(f"{path.name}:{line}: {problem}. Correct the YAML at this line.") from None
        if not isinstance(self.root, CommentedMap):
            raise UserError(f"{path.name}:1: this is not a mapping of sections; see matrix.schema.json.")

    def line(self, place: Place) -> int:
        """Return the line of the deepest part of ``place`` that the text has."""
        node, line = self.root, 1
        for key in place:
            if not _has(node, key):
                continue  # a part that the model adds, such as the branch of a union
            try:
                mark = node.lc.key(key) if isinstance(node, CommentedMap) else node.lc.item(key)
            except (KeyError, AttributeError):  # flow style keeps fewer marks
                continue
            line = mark[0] + 1
            node = node[key]
        return int(line)

    def dotted(self, place: Place) -> str:
        """Return the parts of ``place`` that the text has, such as ``platforms.rocm.targets[1]: ``."""
        node, text = self.root, ""
        for key in place:
            if not _has(node, key):
                continue
            if isinstance(node, CommentedSeq):
                text += f"[{key}]"
            else:
                text += f".{key}" if text else str(key)
            node = node[key]
        return f"{text}: " if text else ""

    def error(self, faults: Iterable[Fault]) -> UserError:
        """Return the error that names each fault in a line of its own, in the order of the file."""
        lines = sorted({(self.line(place), self.dotted(place), text) for place, text in faults})
        return UserError("\n".join(f"{self.path.name}:{line}: {dotted}{text}" for line, dotted, text in lines))


def _has(node: Any, key: str | int) -> bool:
    if isinstance(node, CommentedMap):
        return key in node
    return isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node)
