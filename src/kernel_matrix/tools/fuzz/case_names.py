"""The name of a case of the fuzzer, which any machine can run again.

``fuzz:mhc_pre.forward:tokens=7,streams=4,hidden=77,dtype=fp32:x=denormal@last:0`` has the operator with its direction,
the axes, the unusual values, and the seed. An axis that has its default is left out, and ``views`` among the axes says
that the operator is called with views as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.config.model import Matrix, Op, Scalar
from kernel_matrix.config.plan import case_name
from kernel_matrix.tools.fuzz.inside import values as unusual
from kernel_matrix.tools.fuzz.inside.values import Rule

BEGIN = "fuzz:"
SEED, VIEWS = "seed", "views"


@dataclass(frozen=True)
class Tried:
    """One case: the axes without the seed, in the operator's order; the rules of the unusual values; and the seed."""

    op: str
    direction: str
    axes: Mapping[str, Scalar]
    views: bool = False
    rules: tuple[Rule, ...] = ()
    seed: int = 0

    def name(self, op: Op) -> str:
        """Return the name."""
        axes = [f"{axis}={_text(value)}" for axis, value in self.axes.items() if op.defaults.get(axis) != value]
        words = ",".join([*axes, *([VIEWS] if self.views else [])])
        return f"{BEGIN}{self.op}.{self.direction}:{words}:{self.values_text}:{self.seed}"

    def all_axes(self, op: Op) -> dict[str, Scalar]:
        """Return the axes with the seed, if the operator has one."""
        return {axis: self.seed if axis == SEED else self.axes[axis] for axis in op.axes}

    @property
    def values_text(self) -> str:
        """The text of the rules."""
        return unusual.write(self.rules)

    def case_name(self, op: Op) -> str:
        """Return the name of the case of matrix.yaml with these axes; it decides what the suite draws."""
        return case_name(self.all_axes(op))


def read(matrix: Matrix, name: str) -> Tried:
    """Return the case of a name.

    Raises:
        UserError: it names no case.
    """
    parts = name.split(":")
    if len(parts) != 5 or not name.startswith(BEGIN):
        raise UserError(f"{name}: a case of the fuzzer is called {BEGIN}OP.DIRECTION:AXES:VALUES:SEED.")
    op_name, _, direction = parts[1].rpartition(".")
    known = [f"{one}.{way}" for one, op in matrix.ops.items() for way in op.directions]
    if parts[1] not in known:
        raise UserError(f"{name}: matrix.yaml has no {parts[1]!r}.{did_you_mean(parts[1], known)}")
    op, words = matrix.ops[op_name], [word for word in parts[2].split(",") if word]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    axes = [axis for axis in op.axes if axis != SEED]
    for word in words:
        axis = word.split("=")[0]
        if axis not in axes and word != VIEWS:
            raise UserError(f"{name}: {op_name} has no axis {axis!r}.{did_you_mean(axis, axes)}")
    if lacking := [axis for axis in axes if axis not in given and axis not in op.defaults]:
        raise UserError(f"{name}: the axis {lacking[0]!r} has no value.")
    if not parts[4].isdecimal():
        raise UserError(f"{name}: the seed {parts[4]!r} is no whole number.")
    try:
        rules = unusual.read(parts[3])
    except ValueError as error:
        raise UserError(f"{name}: {error}.") from None
    values = {axis: _value(given[axis]) if axis in given else op.defaults[axis] for axis in axes}
    return Tried(op_name, direction, values, VIEWS in words, rules, int(parts[4]))


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _value(text: str) -> Scalar:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
