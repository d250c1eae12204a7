"""Edits of the expectations and exclusions in the text of matrix.yaml, which keep its layout. Pure functions."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from kernel_matrix.config.model import Scalar

_PLAIN = re.compile(r"[A-Za-z][\w.+-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null"}  # plain texts that YAML reads as something else


@dataclass(frozen=True)
class Edit:
    """An edit of one entry of a section: it is taken out, or ``where`` gets these values for a key."""

    section: str
    index: int
    key: str = ""
    values: tuple[Scalar, ...] = ()


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text of matrix.yaml with all edits made."""
    for edit in sorted(set(edits), key=lambda edit: (edit.section, -edit.index, edit.key)):
        section = _value(YAML().compose(text), edit.section)
        text = _narrowed(text, section.value[edit.index], edit) if edit.key else _without(text, section, edit.index)
    return text


def diff(text: str, edits: Iterable[Edit], name: str) -> str:
    """Return what the edits change in a file of that name, as ``diff -u`` says it."""
    lines = difflib.unified_diff(
        text.splitlines(), edited(text, edits).splitlines(), name, name, n=1, lineterm=""
    )  # a comment on the entry's line is enough to find it
    return "\n".join(lines)


def _narrowed(text: str, entry: Any, edit: Edit) -> str:
    """Return the text in which ``where`` of an entry has other values for a key, which it may not have yet."""
    where, texts = _value(entry, "where"), [_scalar(value) for value in edit.values]
    values = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    for key, value in where.value:
        if key.value == edit.key:
            return text[: value.start_mark.index] + values + text[_end(value) :]
    key, value = where.value[-1]
    end = _end(value)
    if where.flow_style:
        separator = ", "
    else:  # a comment on the line of the last key stays there
        separator, end = "\n" + " " * key.start_mark.column, f"{text}\n".index("\n", end)
    return f"{text[:end]}{separator}{edit.key}: {values}{text[end:]}"


def _without(text: str, section: Any, index: int) -> str:
    """Return the text without one entry of a sequence, and without the comments right above it."""
    entries = section.value
    if section.flow_style:
        if len(entries) == 1:
            return f"{text[: section.start_mark.index]}[]{text[section.end_mark.index :]}"
        if index == 0:
            return text[: entries[0].start_mark.index] + text[entries[1].start_mark.index :]
        return text[: _end(entries[index - 1])] + text[_end(entries[index]) :]
    lines = text.splitlines(keepends=True)
    first, last = _first_line(lines, entries[index], section.start_mark.column), _last_line(text, entries[index])
    if len(entries) == 1:
        key = next(number for number in range(first - 1, -1, -1) if re.match(r"\w+:", lines[number]))
        lines[key] = re.sub(r"^(\w+:)", r"\1 []", lines[key])
    return "".join([*lines[:first], *lines[last + 1 :]])


def _first_line(lines: Sequence[str], entry: Any, column: int) -> int:
    """Return the first line of an entry: the line of its dash, or of the comments right above, indented as the dash."""
    first = int(entry.start_mark.line)
    while first and re.match(rf" {{{column}}}#", lines[first - 1]) and column:
        first -= 1
    return first


def _last_line(text: str, node: Any) -> int:
    """Return the last line that has a part of a node."""
    return text.count("\n", 0, max(_end(node) - 1, 0))


def _end(node: Any) -> int:
    """Return the index behind the last character of a node. The parser's own mark lies behind comments that follow."""
    if isinstance(node.value, str):
        text = node.start_mark.buffer[node.start_mark.index : node.end_mark.index]
        return int(node.start_mark.index) + len(text.rstrip())
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _value(mapping: Any, key: str) -> Any:
    return next(value for name, value in mapping.value if name.value == key)


def _scalar(value: Scalar) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)
