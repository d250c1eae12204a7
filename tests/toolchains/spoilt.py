"""Spoil each handler of an emulator, and print which spoilt ones its tests see, as JSON.

A spoil is an edit of the C++: of a sign, a width, a rounding, a comparison or the order of operands. All of them are
compiled at once, and one is switched on in a process of its own. The tests of single instructions run until one
differs: those that a change of the handler would run.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

from gpu_emulators.common.library import SHARED

MOST_SECONDS = 20  # of CPU time for one spoil
SWITCH = """
static int chosen_spoil = -1;
static bool reached_spoil[1 << 14];
static inline bool spoilt(int number) { return reached_spoil[number] = true, number == chosen_spoil; }
extern "C" inline __attribute__((used)) void choose_spoil(int number) { chosen_spoil = number; }
extern "C" inline __attribute__((used)) bool* reached_spoils() { return reached_spoil; }
template <class A> static inline A rounded_twice_sum(A a, A b, A c) { volatile A product = a * b; return product + c; }
"""
# Of each kind the first edit that changes something is made.
KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "sign": (
        (r"static_cast<i(8|16|32|64)>\(", r"static_cast<u\1>("),
        (r"\bs32\(", "static_cast<u32>("),
        (r"\bs64\(", "static_cast<u64>("),
        (r"\bs16\(", "static_cast<u16>("),
        (r"\bsigned24\(", "("),
        (r"(?<=[\w)]) - (?=[\w(])", " + "),
        (r"(?<=[\w)]) \+ (?=[\w(])", " - "),
        (r"signbit\(", "isnan("),
        (r"fabs\(", "("),
    ),
    "width": (
        (r"& 63\b", "& 31"),
        (r"& 31\b", "& 15"),
        (r"& 15\b", "& 7"),
        (r"0xffffff\b", "0x7fffff"),
        (r"0xffff\b", "0x7fff"),
        (r">> 32\b", ">> 31"),
        (r"(<<|>>) 16\b", r"\1 15"),
        (r"<([ui])64>", r"<\g<1>32>"),
        (r"\b127\b", "63"),
    ),
    "rounding": (
        (r"\b(std::)?rint(f?)\(", r"\1round\2("),
        (r"\b(std::)?(floor|ceil)(f?)\(", r"\1trunc\3("),
        (r"\b(std::)?trunc(f?)\(", r"\1floor\2("),
        (r"\bfmaf\(|\bstd::fma\(", "rounded_twice_sum("),
        (r"\bbits16\(", "bits16_towards_zero("),
        (r"\bbits\(", "~1u & bits("),
        (r"\bbits64\(", "~1ull & bits64("),
        (r"\bflushed\(", "("),
    ),
    "comparison": (
        (r"(?<=[\w)]) < (?!k?(?:Lanes|lanes|w\.lanes|[Cc]ount))(?=[\w(])", " > "),
        (r"(?<=[\w)]) > (?=[\w(])", " < "),
        (r"(?<=[\w)]) == (?=[\w(])", " != "),
        (r"\bmaximum\(", "minimum("),
        (r"\bminimum\(", "maximum("),
        (r"std::max\(", "std::min("),
        (r"std::min\(", "std::max("),
    ),
    "order": (),
}
SYMMETRIC = re.compile(
    r"_(addc?|mul|maxi?|mini?|max|min|and|or|xor|xnor|nor|nand|add3|or3|xor3|sum|product|least|most|dp4a"
    r"|(cmpk?|setp)_(eq|ne|lg|neq|nlg|equ|neu|num|nan|u|o|f|t)"
    r"|med3|max3|min3|fmac|mac|fma|mad|maximum\d?|minimum\d?|maxmin|minmax|maximumminimum|minimummaximum|dot\w*|mixlo)_|sad"
)
# The first or the second operand, where it is not declared.
NAMED = re.compile(
    r"(?<!u32 )(?<!u64 )(?<!i32 )(?<!i64 )(?<!float )(?<!double )(?<!Read )(?<!auto )(?<!\*)\b[ab]\b(?! = |\()"
)
STATEMENTS = ("SCALAR32", "SCALAR64", "UNARY32", "UNARY64", "WITH_CONSTANT")
EXPRESSIONS = ("VECTOR", "DOUBLES", "PAIRS", "DOT", "COMPARISON", "SAVE_EXEC", "SCALAR_FLOAT", "SCALAR_HALF")
FUNCTION = r"^(?:HANDLER\((\w+)\)|{begin}\b(\w+)\([^;{{}}]*?\)) \{{"
STATIC = r"static (?!const )[^\n;{}()]*?"  # how functions begin
LAMBDA = re.compile(r'(?:\["|single<\d>\(")([\w.]+)"[^\n;{}]*?\[\]\([^()]*\)(?: -> \w+)? \{')
MACRO = re.compile(rf"^ *({'|'.join((*STATEMENTS, *EXPRESSIONS))})\((\w+(?:##)?\w*)", re.MULTILINE)
PLACE = re.compile(r"^(\S+?):(\d+):(\d+): (?:error|  required from here)", re.MULTILINE)
FILES = re.compile(r"(_ops\.cc|numbers\.h|small_floats\.h|atomics\.h|lds\.h|formats\.h|matrices\.h)$")


def edited(kind: str, text: str, name: str) -> str | None:
    """Return a text with one edit of a kind; None where it has no place for it."""
    if kind == "order":
        changed = NAMED.sub(lambda one: "ba"[one[0] == "b"], text) if "_" in name else text
        return changed if changed != text and not SYMMETRIC.search(f"_{name}_") else None
    for pattern, new in KINDS[kind]:
        changed = re.sub(pattern, new, text, count=1)
        if changed != text:
            return changed
    return None


def closed(text: str, at: int) -> int:
    """Return the place behind the bracket that closes the one at a place."""
    depth, pairs = 0, {"(": 1, "{": 1, ")": -1, "}": -1}
    while True:
        depth += pairs.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


class Spoiled:
    """The sources with all spoils in them; ``spoils`` has the name and the kind of each."""

    def __init__(self, library: ModuleType, begin: str = STATIC) -> None:
        self.library, self.function = library, re.compile(FUNCTION.format(begin=begin), re.MULTILINE)
        self.spoils: list[tuple[str, str, str]] = []
        self.without: set[int] = set()  # what does not compile

    def switched(self, file: str, name: str, text: str, form: str, otherwise: str) -> str:
        """Return code that chooses between the edits of a text and itself."""
        for kind in KINDS:
            if (new := edited(kind, text, name)) is not None:
                if len(self.spoils) not in self.without:
                    otherwise = form.format(number=len(self.spoils), new=new, otherwise=otherwise)
                self.spoils.append((file, name, kind))
        return otherwise

    def of_file(self, file: str, text: str) -> str:
        """Return the text of a source with its spoils."""
        places = []
        for found in (*self.function.finditer(text), *LAMBDA.finditer(text)):
            end, name = closed(text, found.end() - 1), "_".join(found.groups("")).replace(".", "_")
            if "handlers()" not in text[found.end() : end] and "Handler*" not in found[0]:  # they run at the start
                places.append((found.end(), end - 1, name, "if (spoilt({number})) {{{new}}} else {{{otherwise}}}"))
        for found in MACRO.finditer(text):
            end = closed(text, found.start(2) - 1) - 1
            body = text[found.end() : end]
            skipped = {"VECTOR": 3, "DOUBLES": 2, "PAIRS": 2, "COMPARISON": 4, "DOT": 2, "WITH_CONSTANT": 1}.get(
                found[1], 1
            )
            start = found.end()
            for _ in range(skipped):
                start = text.index(",", start) + 1
            if "#define" in text[text.rfind("\n", 0, found.start()) + 1 : found.end()] or not body.strip(" ,"):
                continue
            is_statement = found[1] in STATEMENTS
            form = (
                "if (spoilt({number})) {{{new};}} else {{{otherwise};}}"
                if is_statement
                else "(spoilt({number}) ? ({new}) : ({otherwise}))"
            )
            places.append((start, end, found[2], form))
        result, at = [], 0
        for start, end, name, form in sorted(places):
            if start < at:
                continue
            result += [text[at:start], self.switched(file, name, text[start:end], form, text[start:end])]
            at = end
        return "".join([*result, text[at:]])

    def write(self, folder: Path) -> None:
        """Write all sources into a folder."""
        self.spoils = []
        for path in (*SHARED.iterdir(), *self.library.SOURCES.iterdir()):
            text = path.read_text()
            if FILES.search(path.name):
                text = self.of_file(path.name, text)
            if path.name == "numbers.h":
                text = text.replace("#pragma once", f"#pragma once\n{SWITCH}")
            (folder / path.name).write_text(text)

    def compiled(self, folder: Path) -> ctypes.CDLL:
        """Return the interpreter with the spoils that a compiler takes."""
        while True:
            self.write(folder)
            command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-w", "-mavx2", "-mfma", "-mf16c"]
            done = subprocess.run([*command, folder / "emulator.cc"], capture_output=True, text=True, check=False)
            wrong = {number for place in PLACE.findall(done.stderr) if (number := self.at(*place)) is not None}
            if not wrong - self.without:
                self.library.SOURCES = folder
                loaded: ctypes.CDLL = self.library.library()
                return loaded
            self.without |= wrong

    @staticmethod
    def at(file: str, line: str, column: str) -> int | None:
        """Return the spoil that a place of a written file is in."""
        lines = Path(file).read_text().splitlines()[: int(line)] if file.startswith(tempfile.gettempdir()) else [""]
        lines[-1] = lines[-1][: int(column)]
        found = re.findall(r"spoilt\((\d+)\)", "\n".join(lines))
        return int(found[-1]) if found else None


Test = tuple[str, Callable[[], object], Callable[[], str]]


def told(test: Callable[[], object]) -> object:
    try:
        return test()
    except Exception as error:
        return type(error).__name__


def in_child(function: Callable[[], str]) -> str:
    """Return what a function returns in a process of its own; a crash, or an endless loop, is told too."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        try:
            os.write(writer, function().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        result = stream.read().decode()
    _, status = os.waitpid(child, 0)
    return f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else result


def spoil_all(
    library: ModuleType, tests: Callable[[], Iterator[Test]], whole: bool, most_tests: int = 12, begin: str = STATIC
) -> None:
    """Print each spoil with the test that sees it; those that no test reaches only of a ``whole`` run."""
    spoiled, own = Spoiled(library, begin), library.SOURCES
    with tempfile.TemporaryDirectory() as folder:
        loaded = spoiled.compiled(Path(folder))
    loaded.reached_spoils.restype = ctypes.POINTER(ctypes.c_bool)
    reached, count = loaded.reached_spoils(), len(spoiled.spoils)
    by_spoil: dict[int, list[Test]] = {number: [] for number in range(count)}
    kept: dict[str, str] = {}  # what tests tell where nothing is spoilt
    for one in tests():
        ctypes.memset(reached, 0, count)
        result = told(one[1])
        if one[1] is one[2]:
            kept[one[0]] = str(result)
        for number in range(count):
            if reached[number]:
                by_spoil[number].append(one)

    def usual(name: str, test: Callable[[], str]) -> str:
        if name not in kept:
            kept[name] = test()
        return kept[name]

    def seen(number: int) -> str:
        for name, _, test in [*by_spoil[number][:most_tests], *by_spoil[number][most_tests:][-2:]]:
            loaded.choose_spoil(-1)
            expected = usual(name, test)
            loaded.choose_spoil(number)
            if test() != expected:
                return name
        return ""

    for number, (file, handler, kind) in enumerate(spoiled.spoils):
        if number not in spoiled.without and by_spoil[number]:
            usual(by_spoil[number][0][0], by_spoil[number][0][2])  # here, so that it is kept
            print(json.dumps([file, handler, kind, in_child(partial(seen, number))]), flush=True)
        elif number not in spoiled.without and whole and (own / file).exists():  # not what another emulator uses
            print(json.dumps([file, handler, kind, "no test"]), flush=True)
