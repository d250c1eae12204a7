"""Read PTX: the variables and kernels of a module, and each kernel's instructions with their operands and lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_emulators.common.errors import EmulatorError

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LOC = re.compile(r"((?<![\w.])\.loc\s+\d+\s[^\n;]*)")  # a directive that no semicolon ends
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+\S+\s*\{.*?\n\s*\}", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?([^{;]*)\{", re.DOTALL)
_ATTRIBUTES = r"(?:\s*\.(?:align\s+\d+|attribute\([^)]*\)|ptr|global|const|shared|local|managed)(?![\w]))*"
_VARIABLE = re.compile(
    rf"\.(shared|global|const|local|param)\b({_ATTRIBUTES})\s*\.([busf]\d+)({_ATTRIBUTES})"
    r"\s*([\w$%.]+)\s*(\[[^=]*\])?\s*(?:=\s*(.*))?$",
    re.DOTALL,
)
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+")
_LABEL = re.compile(r"\s*([\w$%]+)\s*:(?!:)")
_PARTS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,{\[\s](?:[^,{\[]*[^,{\[\s])?")


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``number`` is its place in the kernel, ``line`` the place in the source where PTX has lines."""

    number: int
    opcode: str
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False
    line: str = ""

    @property
    def parts(self) -> list[str]:
        """Return the opcode's words."""
        return self.opcode.split(".")


@dataclass(frozen=True)
class Variable:
    """A variable: its space, its bytes and alignment, and the numbers that it begins with. ``size`` 0 has no end."""

    name: str
    space: str
    size: int
    align: int
    width: int
    values: tuple[int, ...] = ()


@dataclass
class Kernel:
    """A kernel: ``registers`` has the type of each register, ``labels`` the number of the instruction behind each."""

    name: str
    parameters: list[Variable]
    threads: int  # that the kernel says it has; 0 where it does not
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True)
class Module:
    """The kernels and variables of one text of PTX."""

    target: str
    kernels: dict[str, Kernel]
    variables: list[Variable]


def read(text: str) -> Module:
    """Return what a text of PTX has.

    Raises:
        EmulatorError: the text is not PTX, or has what is not known here.
    """
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    if target is None:
        raise EmulatorError("this text has no .target: it is not PTX")
    files = {number: name.rpartition("/")[2] for number, name in _FILE.findall(text)}
    text = _LOC.sub(r"\1;", _SECTION.sub("", _COMMENT.sub("", text)))
    kernels, outside, end = {}, [], 0
    for found in _ENTRY.finditer(text):
        outside.append(text[end : found.start()])
        end = _closing(text, found.end())
        parameters = [_variable(one.strip()) for one in (found[2] or "").split(",") if one.strip()]
        kernel = Kernel(found[1], parameters, _threads(found[3]))
        _Body(kernel, files).read(text[found.end() : end - 1])
        kernels[kernel.name] = kernel
    statements = (words.strip() for part in [*outside, text[end:]] for words in part.split(";"))
    found_variables = (_VARIABLE.search(words) for words in statements if "(" not in words.partition("=")[0])
    return Module(target[1], kernels, [_variable(one[0]) for one in found_variables if one])


def _threads(words: str) -> int:
    found = re.search(r"\.reqntid\s+([\d\s,]+)", words)
    threads = 1
    for size in found[1].split(",") if found else ["0"]:
        threads *= int(size)
    return threads


def _closing(text: str, start: int) -> int:
    depth = 1
    for found in re.finditer(r"[{}]", text[start:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return start + found.end()
    raise EmulatorError("a brace of the PTX is not closed")


def _variable(words: str) -> Variable:
    found = _VARIABLE.search(words)
    if found is None:
        raise EmulatorError(f"PTX: {words!r} is not known")
    space, before, kind, after, name, bounds, values = found.groups()
    width = int(kind[1:]) // 8
    count = 1
    for size in re.findall(r"\[\s*(\d*)\s*\]", bounds or ""):
        count *= int(size or 0)
    align = None if "ptr" in after else re.search(r"align\s+(\d+)", before + after)
    numbers = tuple(int(one, 0) for one in re.findall(r"-?\b(?:0x[\da-fA-F]+|\d+)\b", values or ""))
    if values and not re.fullmatch(r"[\s{},\dxXa-fA-F-]*", values):
        raise EmulatorError(f"PTX: the value of {name} is not known: {values.strip()}")
    return Variable(name, space, count * width, int(align[1]) if align else width, width, numbers)


class _Body:
    """The statements of a kernel, with the names that inner scopes declare."""

    def __init__(self, kernel: Kernel, files: dict[str, str]) -> None:
        self._kernel = kernel
        self._files = files
        self._scopes: list[dict[str, str]] = [{}]
        self._line = ""
        self._inner = 0

    def read(self, text: str) -> None:
        """Take all statements of the text."""
        for statement in _statements(text):
            if statement == "{":
                self._scopes.append({})
                self._inner += 1
            elif statement == "}":
                self._scopes.pop()
            elif statement.startswith("."):
                self._directive(statement)
            elif statement.endswith(":"):
                self._kernel.labels[self._declared(statement[:-1])] = len(self._kernel.instructions)
            else:
                self._instruction(statement)

    def _directive(self, statement: str) -> None:
        if re.match(r"\.loc\s", statement):
            file, line = re.findall(r"\d+", statement)[:2]
            self._line = f"{self._files.get(file, '?')}:{line}" if line != "0" else ""
        elif statement.startswith(".reg"):
            _, kind, names = statement.split(None, 2)
            for name in names.split(","):
                self._register(name.strip(), kind[1:])
        elif statement.startswith((".shared", ".local", ".param")):
            self._kernel.variables.append(_variable(statement))
        elif not statement.startswith((".pragma", ".maxnreg", ".minnctapersm", ".branchtargets")):
            raise EmulatorError(f"PTX: {statement.split()[0]} is not known")

    def _register(self, name: str, kind: str) -> None:
        if found := re.fullmatch(r"([\w$%]+)<(\d+)>", name):
            for number in range(int(found[2])):
                self._kernel.registers[self._declared(f"{found[1]}{number}")] = kind
        else:
            self._kernel.registers[self._declared(name)] = kind

    def _declared(self, name: str) -> str:
        """Return the name that stands for one that this scope declares."""
        if len(self._scopes) > 1:
            self._scopes[-1][name] = f"{name}.scope{self._inner}"
        return self._known(name)

    def _known(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), name)

    def _instruction(self, statement: str) -> None:
        guard = _GUARD.match(statement)
        words = statement[guard.end() :] if guard else statement
        opcode, *rest = words.split(None, 1)
        renamed = re.sub(r"[A-Za-z_$%][\w$]*", lambda found: self._known(found[0]), rest[0]) if rest else ""
        self._kernel.instructions.append(
            Instruction(
                len(self._kernel.instructions),
                opcode,
                tuple(_PARTS.findall(renamed)),
                self._known(guard[2]) if guard else "",
                bool(guard and guard[1]),
                self._line,
            )
        )


def _statements(text: str) -> Iterator[str]:
    """Yield instructions and directives without their semicolon, labels with their colon, and braces of scopes."""
    start, end = 0, len(text)
    while start < end:
        if text[start].isspace() or text[start] == ";":
            start += 1
        elif text[start] in "{}":
            yield text[start]
            start += 1
        elif label := _LABEL.match(text, start):
            yield f"{label[1]}:"
            start = label.end()
        else:
            stop = text.find(";", start)
            if stop < 0:
                raise EmulatorError(f"PTX: no semicolon ends {text[start:].strip()[:60]!r}")
            yield text[start:stop].strip()
            start = stop
