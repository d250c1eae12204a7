"""Propose descriptions of the operators that were recognised: files to edit, of which no case is green as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernel_matrix.adopt.collected import content_of
from kernel_matrix.adopt.recognize import Parameter, Recognized
from kernel_matrix.adopt.repository import Repository
from kernel_matrix.adopt.sources import OWN
from kernel_matrix.base.words import counted, some

# A package, whose conftest is thus no other than the one that tests mean by `import conftest`.
FOLDER, MATRIX = f"{OWN}/matrix_operators", "operators.matrix.yaml"
_NOT_CHECKED = "# ruff: noqa\n# mypy: ignore-errors\n# fmt: off\n"  # by the rules of the repository
_MOST = 40  # operators of a proposal: a package may have hundreds
_SIZES = {0: "[1, 7, 128]", 1: "[64]"}  # of the first axis, and of the others
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
_FRAMEWORKS = {"torch": {"torch", "triton", "tilelang"}, "jax": {"jax", "pallas"}}
_HEAD = '''"""Operators of {package}, as `kernel-matrix init` reads them in its sources. Nobody has confirmed them.

Each case is an error until its description has no line ``proposed=``. For each operator that you want to test: write
the axes in place of "...", compare the other words with what the operator is for, see that the plain code does not
cast and is right, and take the line ``proposed=`` out. Delete the others, here and in {matrix}.
The words: docs/how-to/describe.md of kernel-matrix.
"""

from kernel_matrix.kit import array, operator
'''
_CONFTEST = '''"""Keep these files out of usual runs of pytest: their tests run in the jobs of kernel-matrix."""


def pytest_ignore_collect(config):
    return None if config.pluginmanager.hasplugin("kernel_matrix.job.plugin") else True
'''


class Described(NamedTuple):
    """One operator as matrix.yaml has it."""

    name: str
    kernel: str
    directions: tuple[str, ...]
    outputs: dict[str, tuple[str, ...]]  # by direction
    axes: tuple[str, ...]
    case: str


def chosen(found: Sequence[Recognized]) -> list[Recognized]:
    """Return the operators that are proposed: those with plain code or gradients first, where there are too many."""
    best = sorted(found, key=lambda one: (one.plain is None, not one.differentiable, one.name))[:_MOST]
    return sorted(best, key=lambda one: one.name)


def files(repository: Repository, found: Sequence[Recognized]) -> dict[str, str]:
    """Return the suite of the operators; matrix.yaml's part is :func:`described`."""
    operators = (_operator(one, _framework(repository, one)) for one in found)
    text = _HEAD.format(package=repository.module, matrix=MATRIX) + "".join(operators)
    texts = {"__init__": "", "conftest": _CONFTEST, "test_operators": text}
    return {f"{FOLDER}/{name}.py": _NOT_CHECKED + text for name, text in texts.items()}


def described(found: Sequence[Recognized]) -> list[Described]:
    """Return what matrix.yaml says of the operators."""
    return [_described(one) for one in found]


def _described(one: Recognized) -> Described:
    named = dict.fromkeys(axis for p in one.parameters for axis in p.axes if not axis.isdigit())
    axes = tuple(named) or ("tokens",)
    case = ", ".join(f"{axis}: {_SIZES[min(place, 1)]}" for place, axis in enumerate(axes))
    outputs = {"forward": _outputs(one)} | ({"backward": one.differentiable} if one.differentiable else {})
    return Described(one.name, one.kernel, tuple(outputs), outputs, axes, f"{{ {case} }}")


def _framework(repository: Repository, one: Recognized) -> str:
    """Return the framework whose arrays an operator takes: by its file, by the name of its module, by the package."""
    text = content_of(repository.root / one.where.partition(":")[0]).decode(errors="replace")
    known = ({*_IMPORTED.findall(text)}, {*one.kernel.partition(":")[0].split(".")}, {*repository.toolchains})
    for names in known:
        here = [framework for framework, modules in _FRAMEWORKS.items() if modules & names]
        if len(here) == 1:
            return here[0]
    return here[0] if here else "numpy"


def _outputs(one: Recognized) -> tuple[str, ...]:
    return one.outputs or ("out",)


def _operator(one: Recognized, framework: str) -> str:
    """Return the source of one description."""
    tensors, options = _apart(one)
    lines = [
        f'proposed="{one.what}, {one.where}",',
        f'framework="{framework}",',
        f'kernel="{one.kernel}",',
        *(f"{p.name}={_array(p.axes)}," for p in tensors),
        f"outputs={{{', '.join(f'{_quoted(name)}: array(...)' for name in _outputs(one))}}},",
    ]
    if not one.outputs:
        lines.append("# It returns nothing: say writes=True or in_place=, and put its arrays into their order.")
    if one.differentiable:
        lines.append(f"differentiable=({', '.join(map(_quoted, one.differentiable))},),")
    if options:
        lines.append(f"options={{{', '.join(f'{_quoted(p.name)}: {_default(p)}' for p in options)}}},")
    if options and one.parameters != (*tensors, *options):
        lines.append("# Options come after the arrays here: an adapter of a few lines may have to call the kernel.")
    lines.append('# rows="tokens",  # the axis that counts rows which do not read each other, if there is one')
    head = textwrap.indent("\n".join(lines), "    ")
    given = ", ".join(p.name for p in (*tensors, *options))
    return f"\n\n@operator(\n{head}\n)\ndef test_{one.name}({given}):\n{textwrap.indent(_body(one), '    ')}\n"


def _apart(one: Recognized) -> tuple[list[Parameter], list[Parameter]]:
    """Return the parameters that are arrays, and the others."""
    return [p for p in one.parameters if p.tensor], [p for p in one.parameters if not p.tensor]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _array(axes: Sequence[str]) -> str:
    if not axes:
        return "array(...)"
    return f"array({', '.join(axis if axis.isdigit() else _quoted(axis) for axis in axes)})"


def _default(parameter: Parameter) -> str:
    """Return the default of an option if it is a plain value."""
    plain = parameter.default is not None and re.fullmatch(r"-?[\d.e+-]+|True|False|None|'[^']*'", parameter.default)
    return str(parameter.default).replace("'", '"') if plain else "..."


def _body(one: Recognized) -> str:
    """Return the plain code that the package has, or where it is."""
    plain = one.plain
    if plain is None:
        return f'raise NotImplementedError("write the plain code of {one.name}")'
    if plain.imports is None:
        text = f"copy the plain code from {plain.where}, {plain.name}, without its casts"
        return f'raise NotImplementedError("{text}")'
    casts = re.search(r"\.(float|half|bfloat16|type_as|to)\(|dtype=", plain.source)
    note = "It casts: take that out, as the golden is computed in float64." if casts else "See that it is right."
    tensors, options = _apart(one)
    given = ", ".join(p.name for p in (*tensors, *options))
    code = [*plain.imports, f"# {plain.where}. {note}", textwrap.dedent(plain.source), ""]
    return "\n".join([*code, f"return {plain.name}({given})"])


def lines(found: Sequence[Recognized], shown: int = 3) -> Iterator[str]:
    """Yield what a terminal says of the proposal."""
    if not found:
        return
    plain = sum(one.plain is not None for one in found)
    names = some([one.name for one in found], shown)
    yield f"{counted(len(found), 'operator')} recognised, {plain} with plain code: {names}"
    yield (
        f"their descriptions are a proposal that nobody has confirmed, so each of their cases is an error: edit "
        f"{FOLDER}/test_operators.py, and then `kernel-matrix run --matrix {MATRIX}`"
    )
