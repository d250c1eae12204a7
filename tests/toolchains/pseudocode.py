"""A small evaluator of AMD's pseudocode of opcodes, written from its text alone: bits with types, and statements."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

TOKEN = re.compile(
    r"""\s*(?:(?P<comment>//[^\n]*)|(?P<cast>\d+'[UIFB](?=\())|(?P<kind>\d+'[UIFB])
    |(?P<float>(?:\d+')?\d+\.\d+F?)|(?P<sized>\d+'-?(?:0x[0-9a-fA-F]+|\d+)U?)|(?P<int>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+(?:ULL|LL|U)?)
    |(?P<type>\.(?:[uifb]\d+|bf16|b\d+)(?![A-Za-z_]))|(?P<name>[A-Za-z_]\w*)
    |(?P<op>\*\*|\+:|\+=|-=|<<|>>|<=|>=|<>|==|!=|&&|\|\||[-+*/%&|^~!?:=<>()\[\]{},;.]))""",
    re.VERBOSE,
)
FLOATS: Mapping[int, tuple[Any, str, str]] = {
    16: (np.float16, "e", "H"),
    32: (np.float32, "f", "I"),
    64: (np.float64, "d", "Q"),
}
LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)


class NotCovered(Exception):
    """The text has something that the evaluator does not read."""


@dataclass(frozen=True)
class Value:
    """Bits of a width, as an unsigned (u), signed (i) or floating point (f) number, or as bits (b)."""

    bits: int
    width: int
    kind: str = "u"

    @property
    def number(self) -> Any:
        if self.kind == "f":
            dtype, letter, word = FLOATS[self.width]
            return dtype(struct.unpack(letter, struct.pack(word, self.bits))[0])
        return self.bits - (1 << self.width) if self.kind == "i" and self.bits >> (self.width - 1) & 1 else self.bits

    def typed(self, name: str) -> Value:
        if name == "bf16":
            return Value(self.bits & 0xFFFF, 16, "bf")
        width = int(name[1:])
        return Value(self.bits & (1 << width) - 1, width, name[0])


def number(value: Any, width: int, kind: str) -> Value:
    if kind == "f":
        dtype, letter, word = FLOATS[width]
        with np.errstate(all="ignore"):
            return Value(struct.unpack(word, struct.pack(letter, dtype(value)))[0], width, "f")
    return Value(int(value) & (1 << width) - 1, width, kind)


class Parser:
    """From the text of an opcode to a tree of tuples."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = TOKEN.match(text, at)
            if match is None:
                raise NotCovered(text[at : at + 20])
            at = match.end()
            if match.lastgroup != "comment":
                self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> tuple[str, str]:
        if self.at >= len(self.tokens) or (expected and self.peek() != expected):
            raise NotCovered(f"{self.peek()!r} for {expected!r}")
        self.at += 1
        return self.tokens[self.at - 1]

    def block(self, *ends: str) -> list[Any]:
        statements = []
        while self.peek() not in ends:
            if self.peek() == ";":
                self.take()
            else:
                statements.append(self.statement())
        return statements

    def statement(self) -> Any:
        if self.peek() == "if":
            return self.condition()
        if self.peek() == "for":
            self.take()
            name = self.take()[1]
            self.take("in")
            first = self.expression()
            self.take(":")
            last = self.expression()
            self.take("do")
            body = self.block("endfor")
            self.take()
            return "for", name, first, last, body
        if self.peek() == "break":
            return (self.take()[1],)
        if self.peek() == "return":
            self.take()
            return "return", self.expression()
        if self.peek() == "declare":
            self.take()
            name, size = self.take()[1], 0
            while self.peek() != ";":
                if self.take()[1] == "[":
                    size = int(self.peek())
            return "declare", name, size
        target = self.postfix()
        sign = self.take()[1]
        if sign not in ("=", "+=", "-="):
            raise NotCovered(sign)
        value = self.expression()
        return "set", target, value if sign == "=" else ("binary", sign[0], target, value)

    def function(self) -> Any:
        self.take("(")
        names = []
        while self.peek() != ")":
            name = self.take()[1]
            names += [] if name == "," else [name]
        self.take()
        self.take("(")
        if self.peek() in ("declare", "if", "for"):
            body = self.block(")")
        else:
            body = [("return", self.expression())]
        self.take(")")
        return "lambda", names, body

    def condition(self) -> Any:
        self.take()
        test = self.expression()
        self.take("then")
        body, other = self.block("elsif", "else", "endif"), []
        if self.peek() == "elsif":
            return "if", test, body, [self.condition()]
        if self.peek() == "else":
            self.take()
            other = self.block("endif")
        self.take("endif")
        return "if", test, body, other

    def expression(self) -> Any:
        test = self.binary(0)
        if self.peek() != "?":
            return test
        self.take()
        yes = self.expression()
        self.take(":")
        return "choice", test, yes, self.expression()

    def binary(self, level: int) -> Any:
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level] and self.tokens[self.at][0] == "op":
            sign = self.take()[1]
            left = "binary", sign, left, self.binary(level + 1)
        return left

    def unary(self) -> Any:
        if self.peek() in ("-", "~", "!", "+"):
            return "unary", self.take()[1], self.unary()
        return self.postfix()

    def postfix(self) -> Any:
        tree = self.primary()
        while True:
            kind = self.tokens[self.at][0] if self.at < len(self.tokens) else ""
            if kind == "type":
                tree = "typed", tree, self.take()[1][1:]
            elif self.peek() == "." and self.tokens[self.at + 1][0] == "name":
                self.take()
                tree = "member", tree, self.take()[1]
            elif self.peek() == "[":
                self.take()
                first, last = self.expression(), None
                if self.peek() == ":":
                    self.take()
                    last = self.expression()
                elif self.peek() == "+:":  # so many bits from the first one on
                    self.take()
                    count = "binary", "-", self.expression(), ("value", Value(1, 32))
                    first, last = ("binary", "+", first, count), first
                self.take("]")
                tree = "part", tree, first, last
            else:
                return tree

    def primary(self) -> Any:
        kind, text = self.take()
        if kind == "cast":
            self.take("(")
            inner = self.expression()
            self.take(")")
            width, letter = text.split("'")
            return "cast", inner, int(width), letter.lower()
        if kind == "sized":
            width, rest = text.split("'")
            return "value", Value(
                int(rest.rstrip("U"), 0) & (1 << int(width)) - 1, int(width), "u" if "U" in text else "i"
            )
        if kind == "float":
            width = 16 if "'" in text else 32 if text.endswith("F") else 64
            return "value", number(float(text.rpartition("'")[2].rstrip("F")), width, "f")
        if kind == "int":
            digits = re.sub("(ULL|LL|U)$", "", text)
            width = 64 if text.endswith("LL") else 32
            return "value", Value(int(digits, 0) & (1 << width) - 1, width, "u" if "U" in text or "0x" in text else "i")
        if text in ("(", "{"):
            parts = [self.expression()]
            while self.peek() == ",":
                self.take()
                parts.append(self.expression())
            self.take(")" if text == "(" else "}")
            return ("together", parts) if text == "{" else parts[0]
        if kind != "name":
            raise NotCovered(text)
        if text == "lambda":
            return self.function()
        if self.peek() == "(":
            self.take()
            arguments = [self.expression()]
            while self.peek() == ",":
                self.take()
                arguments.append(self.expression())
            self.take(")")
            return "call", text, arguments
        return "name", text


class Break(Exception):
    """The end of a loop."""


class Return(Exception):
    """The end of a function, with its value."""


class Evaluator:
    """Run the tree of an opcode; ``names`` are its operands, and what it writes."""

    def __init__(self, names: dict[str, Any], other: Callable[[str, list[Value]], Value]) -> None:
        self.names, self.other = names, other

    def run(self, statements: list[Any]) -> None:
        for one in statements:
            if one[0] == "if":
                self.run(one[2] if truth(self.value(one[1])) else one[3])
            elif one[0] == "for":
                first, last = int(self.value(one[2]).number), int(self.value(one[3]).number)
                try:
                    for place in range(first, last + 1):
                        self.names[one[1]] = Value(place, 32, "i")
                        self.run(one[4])
                except Break:
                    pass
            elif one[0] == "break":
                raise Break
            elif one[0] == "return":
                raise Return(self.value(one[1]))
            elif one[0] == "declare" and one[2] and one[1] not in self.names:
                self.names[one[1]] = [Value(0, 64, "b")] * one[2]
            elif one[0] == "set":
                self.set(one[1], self.value(one[2]))

    def set(self, target: Any, value: Value) -> None:
        kind = target[0]
        if kind == "name":
            old = self.names.get(target[1])
            self.names[target[1]] = (
                Value(value.bits & (1 << old.width) - 1, old.width, value.kind)
                if old and target[1][:1] in "DVE"
                else value
            )
        elif kind == "typed":
            width = 16 if target[2] == "bf16" else int(target[2][1:])
            if target[1][0] == "part":
                self.set(target[1], converted(value, width, "bf" if target[2] == "bf16" else target[2][0]))
                return
            old = self.names.get(target[1][1], Value(0, 64))
            new = converted(value, width, target[2][0])
            keep = max(old.width, width)
            self.names[target[1][1]] = (
                Value(old.bits >> width << width | new.bits, keep, target[2][0])
                if width >= 32 and keep == width
                else Value(old.bits >> width << width | new.bits, keep, "b")
            )
        elif kind == "part":
            self.set_part(target, value)
        elif kind == "together":
            at = 0
            for part in reversed(target[1]):
                width = int(part[2][1:])
                self.set(part, Value(value.bits >> at & (1 << width) - 1, width, part[2][0]))
                at += width
        else:
            raise NotCovered(kind)

    def set_part(self, target: Any, value: Value) -> None:
        inner = target[1]
        while inner[0] == "typed":
            inner = inner[1]
        if inner[0] != "name":
            raise NotCovered("a part of a part")
        old = self.names.get(inner[1], Value(0, 64, "b"))
        if isinstance(old, list):
            old[int(self.value(target[2]).number)] = value
            return
        high = int(self.value(target[2]).number)
        low = high if target[3] is None else int(self.value(target[3]).number)
        width = high - low + 1
        mask = (1 << width) - 1 << low
        self.names[inner[1]] = Value(
            old.bits & ~mask | (value.bits & (1 << width) - 1) << low, max(old.width, high + 1), "b"
        )

    def value(self, tree: Any) -> Any:
        return getattr(self, f"value_{tree[0]}")(*tree[1:])

    def value_value(self, value: Value) -> Value:
        return value

    def value_name(self, name: str) -> Any:
        constants = {"INF": number(math.inf, 64, "f"), "NAN": number(math.nan, 64, "f"), "PI": number(math.pi, 64, "f")}
        if name in self.names:
            return self.names[name]
        if name in constants:
            return constants[name]
        raise NotCovered(name)

    def value_typed(self, tree: Any, name: str) -> Value:
        value = self.value(tree)
        if tree in (("name", "INF"), ("name", "NAN")):
            return converted(value, int(name[1:]), "f")
        return value.typed(name)

    def value_member(self, tree: Any, name: str) -> Any:
        value = self.value(tree)
        if not isinstance(value, dict) or name not in value:
            raise NotCovered(name)
        return value[name]

    def value_part(self, tree: Any, first: Any, last: Any) -> Value:
        value, high = self.value(tree), int(self.value(first).number)
        if isinstance(value, list):
            return value[high]
        low = high if last is None else int(self.value(last).number)
        if not isinstance(value, Value):
            raise NotCovered("an array")
        if high < low:
            return Value(sum((value.bits >> k & 1) << (low - k) for k in range(high, low + 1)), low - high + 1)
        return Value(value.bits >> low & (1 << (high - low + 1)) - 1, high - low + 1)

    def value_cast(self, tree: Any, width: int, kind: str) -> Value:
        return converted(self.value(tree), width, kind)

    def value_together(self, parts: list[Any]) -> Value:
        bits = width = 0
        for part in map(self.value, parts):
            bits, width = bits << part.width | part.bits, width + part.width
        return Value(bits, width)

    def value_choice(self, test: Any, yes: Any, no: Any) -> Value:
        return self.value(yes if truth(self.value(test)) else no)

    def value_unary(self, sign: str, tree: Any) -> Value:
        value = self.value(tree)
        if sign == "!":
            return Value(int(not truth(value)), 1)
        if sign == "~":
            return Value(~value.bits & (1 << value.width) - 1, value.width, value.kind)
        if sign == "+":
            return value
        if value.kind == "f":
            return Value(value.bits ^ 1 << (value.width - 1), value.width, "f")
        return number(-value.number, value.width, value.kind)

    def value_binary(self, sign: str, left: Any, right: Any) -> Value:
        a = self.value(left)
        if sign == "==" and right[0] == "unary" and right[2][0] == "value" and right[2][1].bits == 0:
            b = self.value(right)  # a zero with a sign is compared with its sign
            return Value(int(a.number == 0 and a.bits >> (a.width - 1) == b.bits >> (b.width - 1)), 1)
        if sign in ("&&", "||"):
            return Value(
                int(
                    (truth(a) and truth(self.value(right))) if sign == "&&" else (truth(a) or truth(self.value(right)))
                ),
                1,
            )
        return combined(sign, a, self.value(right))

    def value_lambda(self, names: list[str], body: list[Any]) -> Any:
        return names, body

    def apply(self, function: tuple[list[str], list[Any]], values: list[Value]) -> Value:
        names, body = function
        try:
            Evaluator({**self.names, **dict(zip(names, values, strict=True))}, self.other).run(body)
        except Return as result:
            value: Value = result.args[0]
            return value
        raise NotCovered("a function without a value")

    def value_call(self, name: str, arguments: list[Any]) -> Value:
        values = [self.value(one) for one in arguments]
        if isinstance(self.names.get(name), tuple):
            return self.apply(self.names[name], values)
        if name == "f32_to_f16" and self.names.get("ROUND_MODE") == "zero":
            return to_half_towards_zero(values[0])
        if name in FUNCTIONS:
            return FUNCTIONS[name](*values)
        return self.other(name, values)


def truth(value: Value) -> bool:
    return bool(value.number)


def converted(value: Value, width: int, kind: str) -> Value:
    """Return a number in another type: a float of another size, or bits that are cut or widened."""
    if (kind, width) == (value.kind, value.width):
        return value  # a NaN stays as it is
    if kind == "bf" or kind == value.kind == "f":
        return value if kind == "bf" else number(value.number, width, "f")
    if kind == "f" or value.kind == "f":
        if value.width == width or kind == "b":
            return Value(value.bits & (1 << width) - 1, width, kind)
        return Value(value.bits, width, kind) if kind != "f" else number(value.number, width, "f")
    return number(value.number, width, kind)


def combined(sign: str, a: Value, b: Value) -> Value:
    if a.kind == b.kind == "bf":
        return to_bf16(of_floats(sign, *(Value(one.bits << 16, 32, "f") for one in (a, b))))
    if "f" in (a.kind, b.kind):
        return of_floats(sign, a, b)
    left, right = a.number, b.number
    if sign in COMPARISONS:
        return Value(int(COMPARISONS[sign](left, right)), 1)
    kind = "i" if a.kind == "i" and (b.kind == "i" or sign in ("<<", ">>")) else "u" if a.kind in "ub" else a.kind
    width = a.width if sign in ("<<", ">>") else max(a.width, b.width)
    if sign in ("<<", ">>"):
        return number(left << right if sign == "<<" else left >> right, width, kind)
    if sign in ("/", "%"):
        return number(left // right if sign == "/" else left % right, width, kind)
    operations = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "&": left & right,
        "|": left | right,
        "^": left ^ right,
    }
    if sign not in operations:
        raise NotCovered(sign)
    return number(operations[sign], width, kind)


def of_floats(sign: str, a: Value, b: Value) -> Value:
    width = max(one.width for one in (a, b) if one.kind == "f")
    with np.errstate(all="ignore"):
        if sign == "**":
            return number(np.ldexp(np.float64(1), int(b.number)) if a.number == 2 else a.number**b.number, 64, "f")
        if sign == "*" and b.width > a.width and b.kind == "f":  # by a power of two
            return number(scaled(a, b), a.width, "f")
        left, right = (FLOATS[width][0](one.number) for one in (a, b))
        if sign in COMPARISONS:
            return Value(int(COMPARISONS[sign](left, right)), 1)
        return number(
            {
                "+": lambda: left + right,
                "-": lambda: left - right,
                "*": lambda: left * right,
                "/": lambda: left / right,
            }[sign](),
            width,
            "f",
        )


def scaled(a: Value, b: Value) -> float:
    """Return the product with a power of two, which is rounded once; the power may be too large for a double."""
    x, power = float(a.number), float(b.number)
    if not math.isfinite(x) or x == 0:
        return x
    if math.isinf(power):
        return math.copysign(math.inf, x)
    return math.copysign(exact(Fraction(abs(x)) * Fraction(power), a.width), x)


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<>": lambda a, b: a < b or a > b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def exact(value: Fraction, width: int) -> float:
    """Return the double that rounds to the nearest number of a width as the fraction does (round to odd)."""
    near = float(value) if abs(value) < Fraction(2) ** 1024 else math.copysign(math.inf, value)
    if width == 64 or math.isinf(near) or Fraction(near) == value:
        return near
    bits = struct.unpack("<Q", struct.pack("<d", near))[0]
    if bits & 1:
        return near
    return math.nextafter(near, math.inf if Fraction(near) < value else -math.inf)


def fma(a: Value, b: Value, c: Value) -> Value:
    x, y, z = (float(one.number) for one in (a, b, c))
    if not all(map(math.isfinite, (x, y, z))):
        with np.errstate(all="ignore"):
            return number(np.float64(x) * np.float64(y) + np.float64(z), c.width, "f")
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        product = math.copysign(1, x) * math.copysign(1, y)
        zero = x * y == 0 or z != 0
        return number(
            math.copysign(0.0, product) if zero and math.copysign(1, z) == product and z == 0 else 0.0, c.width, "f"
        )
    return number(exact(total, c.width), c.width, "f")


def to_half_towards_zero(value: Value) -> Value:
    near = number(value.number, 16, "f")
    if abs(float(near.number)) > abs(float(value.number)) and not math.isinf(float(value.number)):
        return Value(near.bits - 1, 16, "f")
    return near


def to_integer(value: Value, width: int, kind: str) -> Value:
    x = float(value.number)
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "i" else (0, (1 << width) - 1)
    return number(
        0
        if math.isnan(x)
        else min(max(math.trunc(x), least), most)
        if math.isfinite(x)
        else (least if x < 0 else most),
        width,
        kind,
    )


def to_bf16(value: Value) -> Value:
    x = value.bits
    if math.isnan(float(value.number)):
        return Value(x >> 16 | 64, 16, "bf")
    return Value((x + 0x7FFF + (x >> 16 & 1)) >> 16 & 0xFFFF, 16, "bf")


def of_float(function: Callable[[float], float]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        x = float(value.number)
        return (
            value
            if not math.isfinite(x)
            else number(math.copysign(function(x), x) if function(x) == 0 else function(x), value.width, "f")
        )

    return apply


def quiet(function: Callable[[Any], Any], value: Value) -> Any:
    with np.errstate(all="ignore"):
        return function(np.float64(value.number))


def signext_from_bit(value: Value, place: Value) -> Value:
    width = place.bits
    return (
        number(value.bits - (1 << width) if width and value.bits >> (width - 1) & 1 else value.bits, value.width, "i")
        if width
        else Value(0, value.width, "i")
    )


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "signext": lambda a: number(a.typed(f"i{a.width}").number, 64 if a.width > 32 else 32, "i"),
    "signext_from_bit": signext_from_bit,
    "fma": fma,
    "floor": of_float(math.floor),
    "trunc": of_float(math.trunc),
    "fract": lambda a: number(float(a.number) - math.floor(float(a.number)), a.width, "f"),
    "isEven": lambda a: Value(int(math.isfinite(float(a.number)) and float(a.number) % 2 == 0), 1),
    "isNAN": lambda a: Value(int(math.isnan(float(a.number))), 1),
    "isQuietNAN": lambda a: Value(int(math.isnan(float(a.number))), 1),
    "isSignalNAN": lambda a: Value(0, 1),
    "cvtToQuietNAN": lambda a: a,
    "exponent": lambda a: Value(
        a.bits >> 52 & 2047 if a.width == 64 else a.bits >> 10 & 31 if a.width == 16 else a.bits >> 23 & 255, 32, "i"
    ),
    "sign": lambda a: Value(a.bits >> (a.width - 1) & 1, 1),
    "abs": lambda a: (
        Value(a.bits & ~(1 << (a.width - 1)), a.width, a.kind) if a.kind == "f" else number(abs(a.number), a.width, "i")
    ),
    "mantissa": lambda a: number(math.frexp(float(a.number))[0], a.width, "f"),
    "ldexp": lambda a, b: number(np.ldexp(np.float64(a.number), int(b.number)), a.width, "f"),
    "pow": lambda a, b: number(quiet(np.exp2, b), b.width, "f"),
    "log2": lambda a: number(quiet(np.log2, a), a.width, "f"),
    "sqrt": lambda a: number(math.nan if float(a.number) < 0 else math.sqrt(float(a.number)), a.width, "f"),
    "i32_to_f32": lambda a: number(exact(Fraction(a.number), 32), 32, "f"),
    "u32_to_f32": lambda a: number(exact(Fraction(a.bits), 32), 32, "f"),
    "f32_to_i32": lambda a: to_integer(a, 32, "i"),
    "f32_to_u32": lambda a: to_integer(a, 32, "u"),
    "f64_to_i32": lambda a: to_integer(a, 32, "i"),
    "f64_to_u32": lambda a: to_integer(a, 32, "u"),
    "i32_to_f64": lambda a: number(a.number, 64, "f"),
    "u32_to_f64": lambda a: number(a.bits, 64, "f"),
    "f32_to_f64": lambda a: number(a.number, 64, "f"),
    "f64_to_f32": lambda a: number(a.number, 32, "f"),
    "f32_to_f16": lambda a: number(a.number, 16, "f"),
    "f16_to_f32": lambda a: number(a.typed("f16").number, 32, "f"),
    "bf16_to_f32": lambda a: Value(a.bits << 16, 32, "f"),
    "i16_to_f16": lambda a: number(a.typed("i16").number, 16, "f"),
    "u16_to_f16": lambda a: number(a.bits, 16, "f"),
    "f16_to_i16": lambda a: to_integer(a, 16, "i"),
    "f16_to_u16": lambda a: to_integer(a, 16, "u"),
    **{f"i{bits}_to_i32": lambda a, bits=bits: number(a.typed(f"i{bits}").number, 32, "i") for bits in (4, 8, 16)},
    **{f"u{bits}_to_u32": lambda a: Value(a.bits, 32, "u") for bits in (4, 8, 16)},
    "i32_to_i16": lambda a: number(max(-(1 << 15), min((1 << 15) - 1, a.number)), 16, "i"),
    "u32_to_u16": lambda a: Value(min(a.bits, 0xFFFF), 16, "u"),
    "sin": of_float(math.sin),
    "cos": of_float(math.cos),
    "f32_to_bf16": to_bf16,
}
