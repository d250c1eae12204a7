"""Make the reference from the code: matrix.yaml's keys, the command line, the states, what a suite calls."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kernel_matrix import cli
from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.config.load import schema
from kernel_matrix.job import case, inputs, race, suite_compare, worker
from kernel_matrix.report.sentences import MEANING

_MADE = "<!-- made by ci/docs_reference.py; edits are lost -->\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {
        "commands.md": _MADE + "\n".join(commands()),
        "matrix-yaml.md": _MADE + "\n".join(configuration(json.loads(schema()))),
        "states.md": _MADE + "\n".join(states()),
        "suite.md": _MADE + "\n".join(suite()),
    }


def commands() -> Iterator[str]:
    """Yield the page of the command line: each command with its options, as argparse has them."""
    yield "# Commands\n"
    yield (
        "`kernel-matrix COMMAND --help` prints the same. The exit status is 0 if nothing is red and 1 if something is. "
        "It is 2 if the input cannot be used; the message then says where, what, and what to do.\n"
    )
    known = cli.commands()
    for purpose, names in cli.by_purpose().items():
        yield f"## {purpose}\n"
        for name in names:
            for path in cli.in_group(name, known):
                yield from _command(path)


def _command(name: str) -> Iterator[str]:
    """Yield the text of one command."""
    parser = cli.parser_of(name)
    yield f"### {name}\n\n{parser.description}\n\n```text\n{_usage(parser)}\n```\n"
    lines = [(_option(action), _plain(action.help or "")) for action in parser._actions if action.dest != "help"]
    if lines:
        yield table(("option", "what it does"), lines)
    if parser.epilog:
        yield f"{parser.epilog}\n"


def _usage(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=100)
    return parser.format_usage().removeprefix("usage: ").strip()


def _option(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices:
        value = " or ".join(str(choice) for choice in action.choices)
    return f"{names} {_plain(str(value))}".strip() if action.option_strings and value else names


def configuration(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the page of matrix.yaml: each section with its keys, from the schema that the file is checked with."""
    yield "# matrix.yaml\n"
    yield (
        "The only configuration. `kernel-matrix check` checks it, and `kernel-matrix check --schema` prints its JSON "
        "Schema for editors. Each section below is one kind of mapping.\n"
    )
    yield "## The whole file\n"
    yield from _section(document)
    for name, section in sorted(document["$defs"].items()):
        if "properties" in section:
            yield f"## {name}\n\n{_plain(section.get('description', ''))}\n"
            yield from _section(section)


def _section(section: Mapping[str, Any]) -> Iterator[str]:
    required = set(section.get("required", ()))
    lines = []
    for key, entry in section["properties"].items():
        default = "needed" if key in required else f"`{json.dumps(entry['default'])}`" if "default" in entry else ""
        lines.append((f"`{key}`", _kind(entry), default, _plain(entry.get("description", ""))))
    yield table(("key", "value", "default", "meaning"), lines)


def _kind(entry: Mapping[str, Any]) -> str:
    """Return what a key takes, in words, with a link to the section of a mapping."""
    if "$ref" in entry:
        name = entry["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in entry or "const" in entry:
        return " or ".join(f"`{value}`" for value in entry.get("enum", [entry.get("const")]))
    if "anyOf" in entry:
        kinds = [_kind(one) for one in entry["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if entry.get("type") == "array":
        return f"list of {_kind(entry.get('items', {}))}"
    if entry.get("type") == "object":
        values = entry.get("additionalProperties")
        return f"mapping to {_kind(values)}" if isinstance(values, dict) else "mapping"
    return {"string": "text", "boolean": "true or false"}.get(str(entry.get("type")), str(entry.get("type", "any")))


def states() -> Iterator[str]:
    """Yield the page of the states and of the levels of evidence."""
    yield "# States and evidence\n"
    yield "Every planned case has exactly one state.\n"
    yield table(("state", "meaning"), [(f"**{name}**", _plain(text)) for name, (_, text) in MEANING.items()])
    yield "## Evidence\n\nHow much is known of a case, from the least. A cell has the least of its cases.\n"
    yield "\n".join(f"1. {level}" for level in EVIDENCE) + "\n"


def suite() -> Iterator[str]:
    """Yield the page of what a suite calls: the fixtures, and the functions of the kernel's process."""
    yield "# What a suite calls\n"
    yield "A test asks for a fixture. `kernel_side.py` imports from `kernel_matrix.job`.\n"
    for title, kind in (("case", case.RunningCase), ("matrix", suite_compare.Comparer)):
        yield f"## The fixture {title}\n"
        for name, member in vars(kind).items():
            function = inspect.unwrap(member) if callable(member) else None
            if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
                yield _function(name, function)
    yield "## In the kernel's process\n"
    for function in (worker.enter_stage, race.race, inputs.digest):
        yield _function(function.__name__, function)


def _function(name: str, function: Any) -> str:
    """Return a function with its arguments and its text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    arguments = next(ast.unparse(node.args) for node in tree.body if isinstance(node, ast.FunctionDef))
    arguments = re.sub(r"^self(, )?", "", arguments)
    text = re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(function) or "")
    text = re.sub(r"^(Raises|Args|Returns|Yields):$", r"**\1**\n", text, flags=re.MULTILINE)
    text = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", text)
    return f"### {name}\n\n```python\n{name}({arguments})\n```\n\n{text}\n"


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    titles = list(header)
    output = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return "\n".join([*output, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def _plain(text: str) -> str:
    """Return a text for the cell of a table."""
    text = re.sub(r":\w+:`~?([\w.]+)`|``([^`]+)``", lambda match: f"`{match[1] or match[2]}`", text)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("%%", "%")
