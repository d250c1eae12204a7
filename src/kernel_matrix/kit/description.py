"""The description of an operator. The process that compares reads it; the kernel's process gets what JSON can hold."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_matrix.kit.checks.names import CHECKS
from kernel_matrix.kit.frameworks.names import MODES, NAMES, WITH_GRADIENTS, WRITABLE

_NO_FLOAT = ("int", "uint", "bool")
_COMPLEX = "no array has complex numbers: name their real and imaginary parts, and pack them in kernels="
_WORDS = ("dtype", "scale", "mean", "below", "positive", "when", "drawn", "saved")
Axes = Mapping[str, Any]  # the values of a case's axes
Axis = str | int | Callable[[Axes], int]
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, init=False)
class array:  # noqa: N801 (it reads as a word of a description)
    """One array: its axes, each an axis of the cases, a number or a function of the case's axes, and what is drawn.

    ``dtype`` "case" is the value of the cases' axis ``dtype``, and fp32 where there is none. ``scale`` and ``mean`` say
    what is drawn, and ``positive`` that it is never negative; ``scale`` may be an axis too, or a function of them.
    ``below`` draws whole numbers from 0 to below it. ``when`` is an axis: where it is false, there is no such array,
    and None stands in its place. ``drawn`` is a function of the values that were drawn and of the case's axes; it
    returns the values that the array has. ``saved`` is one of the arrays before this one, by their names, and of the
    axes: it returns what the forward saves for a backward, this array or several by their names.
    """

    axes: tuple[Any, ...]
    dtype: str = "case"
    scale: str | float | Callable[[Axes], float] = 1.0
    mean: float = 0.0
    below: str | int | None = None
    positive: bool = False
    when: str = ""
    drawn: Callable[[Any, Axes], Any] | None = None
    saved: Callable[[Mapping[str, Any], Axes], Any] | None = None

    def __init__(self, *axes: Any, **words: Any) -> None:
        """Take the axes in their order, and the words of the class's docstring; ``...`` is what is still to be written.

        Raises:
            TypeError: there is no such word.
        """
        if unknown := sorted(words.keys() - set(_WORDS)):
            raise TypeError(f"array() has no {', '.join(unknown)}; it has {', '.join(_WORDS)}")
        if words.get("below") is not None:
            words.setdefault("dtype", "int64")
        for name, value in {"axes": axes, **words}.items():
            object.__setattr__(self, name, value)

    @property
    def whole(self) -> bool:
        """True if its elements are whole numbers."""
        return self.dtype.startswith(_NO_FLOAT)

    def shape(self, sizes: Axes) -> tuple[int, ...]:
        """Return its shape, for the values of a case's axes."""
        return tuple(
            int(sizes[axis]) if isinstance(axis, str) else axis if isinstance(axis, int) else int(axis(sizes))
            for axis in self.axes
        )

    def spread(self, sizes: Axes) -> float:
        """Return the standard deviation of what is drawn."""
        if isinstance(self.scale, str):
            return float(sizes[self.scale])
        return float(self.scale(sizes) if callable(self.scale) else self.scale)

    def like(self, **words: Any) -> array:
        """Return an array of the same axes and dtype, in the same cases, with these words."""
        return array(*self.axes, dtype=self.dtype, when=self.when, **words)

    def is_there(self, sizes: Axes) -> bool:
        """Return whether a case has it."""
        return not self.when or bool(sizes[self.when])


@dataclass(frozen=True)
class Operator:
    """One operator, as :func:`operator` takes it."""

    name: str
    reference: Callable[..., Any]
    inputs: Mapping[str, array]
    outputs: Mapping[str, array]
    kernel: str = ""
    kernels: str = ""
    direction: str = ""
    framework: str = "numpy"
    rows: str | None = None
    fewest: int = 0
    free: tuple[str, ...] = ()
    options: Mapping[str, Any] | Callable[[Axes], Mapping[str, Any]] = field(default_factory=dict)
    writes: bool = False
    optional: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    differentiable: tuple[str, ...] = ()
    module: Mapping[str, Any] | None = None
    same_bits: bool = True
    exact: bool = False
    compute: str = "fp32"
    steps: int | Callable[[Axes, str], int] | None = None
    units: Callable[[Axes, Mapping[str, Any]], Mapping[str, float]] | None = None
    baseline: Callable[..., Any] | None = None
    ahead: str = ""
    draw: Callable[[Mapping[str, Any], str], Mapping[str, Any]] | None = None
    proposed: str = ""
    code: str = ""
    operators: tuple[str, ...] | None = None
    forbidden: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    once: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, str] | Callable[[Any], Mapping[str, str]] = field(default_factory=dict)

    def options_of(self, sizes: Axes) -> dict[str, Any]:
        """Return the further arguments of the kernel and of the plain code, in a case."""
        return dict(self.options(sizes) if callable(self.options) else self.options)

    def inputs_of(self, sizes: Axes) -> dict[str, array]:
        """Return the inputs that a case has."""
        return {name: one for name, one in self.inputs.items() if one.is_there(sizes)}

    def outputs_of(self, sizes: Axes) -> dict[str, array]:
        """Return the outputs that a case has."""
        return {name: one for name, one in self.outputs.items() if one.is_there(sizes)}

    @property
    def directions(self) -> tuple[str, ...]:
        """Its directions; a description of one kernel names its own."""
        return (self.direction,) if self.direction else DIRECTIONS[: 2 if self.differentiable else 1]

    def by_row(self, arrays: Mapping[str, array]) -> list[str]:
        """Return the arrays whose first axis counts rows."""
        return [name for name, one in arrays.items() if self.rows and one.axes[:1] == (self.rows,)]

    @property
    def incoming(self) -> dict[str, array]:
        """The gradients that come in for a backward, by their names."""
        floats = {name: one for name, one in self.outputs.items() if not one.whole}
        return {f"grad_{name}": one.like() for name, one in floats.items()}

    def incoming_of(self, sizes: Axes) -> dict[str, array]:
        """Return the gradients that come in, in a case: those of the outputs that it has."""
        return {name: one for name, one in self.incoming.items() if one.is_there(sizes)}


def operator(*, outputs: Mapping[str, array], **words: Any) -> Callable[[Callable[..., Any]], Any]:
    """Describe the operator whose plain code is the function ``test_NAME``; return the test that runs its cases.

    The parameters of the function are the inputs, in the order of the kernel's call, and then its options. Each input
    is a keyword here (``x=array("tokens", 8)``), and their order counts where the function takes ``*any``. The comment
    at the end of this module has the other words.

    Raises:
        TypeError: the function has no such parameter, or there is no such word.
        ValueError: a word has a value that it cannot have.
    """

    def described(reference: Callable[..., Any]) -> Any:
        one = described_as(reference, outputs, words)

        def test(case: Any) -> None:
            importlib.import_module("kernel_matrix.kit.conform").conform(case, one)  # it imports this module

        import pytest  # not at the top: the kernel's process reads this module too

        test.__name__, test.__module__, test.__doc__ = reference.__name__, reference.__module__, reference.__doc__
        test.described = one  # type: ignore[attr-defined]
        marked: Any = test
        for direction in one.directions:
            marked = pytest.mark.op(one.name, direction)(marked)
        return marked

    return described


def described_as(reference: Callable[..., Any], outputs: Mapping[str, array], words: Mapping[str, Any]) -> Operator:
    """Return the description.

    Raises:
        TypeError: the function has no such parameter, or there is no such word.
        ValueError: a word has a value that it cannot have.
    """
    known = Operator.__dataclass_fields__.keys() - {"reference", "inputs", "outputs"}
    drawn = {name: value for name, value in words.items() if isinstance(value, array)}
    if unknown := sorted(words.keys() - drawn.keys() - known):
        raise TypeError(f"a description has no {', '.join(unknown)}; it has inputs, and {', '.join(sorted(known))}")
    parameters = inspect.signature(reference).parameters.values()
    takes_any = any(one.kind is one.VAR_POSITIONAL for one in parameters)  # in the order of the words then
    order = list(drawn) if takes_any else [one.name for one in parameters if one.name in drawn]
    if missing := sorted(drawn.keys() - set(order)):
        raise TypeError(f"the plain code has no parameter {', '.join(missing)}")
    rest = {name: value for name, value in words.items() if name not in drawn}
    for name in ("in_place", "differentiable", "optional", "forbidden", "holds", "modes", "free"):
        rest[name] = _several(rest.get(name, ()))
    name = str(rest.pop("name", "")) or reference.__name__.removeprefix("test_")
    one = Operator(name, reference, {name: drawn[name] for name in order}, dict(outputs), **rest)
    _check(one)
    return one


def _check(one: Operator) -> None:
    """Check that the words fit each other.

    Raises:
        ValueError: they do not.
    """
    kinds = [*one.inputs.values(), *one.outputs.values()]
    axes = {axis for kind in kinds for axis in kind.axes}
    unknown = [name for name, kind in {**one.inputs, **one.outputs}.items() if ... in kind.axes]
    wrong = [
        (one.framework not in NAMES, f"framework is one of {', '.join(NAMES)}"),
        (not one.outputs or not one.inputs, "an operator has inputs and outputs"),
        (any(kind.dtype.startswith("complex") for kind in kinds), _COMPLEX),
        (one.rows is not None and one.rows not in axes, f"no array has the axis '{one.rows}' that counts rows"),
        (not set(one.free) <= axes - {one.rows}, "free names axes of arrays, but not that of rows"),
        (not set(one.in_place) <= set(one.inputs) & set(one.outputs), "in_place names inputs that are outputs too"),
        (not set(one.differentiable) <= set(one.inputs), "differentiable names inputs"),
        (any(one.inputs[n].whole for n in one.differentiable if n in one.inputs), "whole numbers have no gradient"),
        (bool(one.differentiable) and one.framework not in WITH_GRADIENTS, "this framework has no gradients"),
        (not set(one.modes) <= set(MODES.get(one.framework, ())), f"a mode is one of a framework's: {MODES}"),
        (one.compute not in ("fp32", "case"), "compute is fp32 or case"),
        (one.direction not in ("", *DIRECTIONS), f"direction is one of {', '.join(DIRECTIONS)}"),
        (bool(one.direction) and bool(one.differentiable), "a kernel of one direction has no gradients of its own"),
        (not set(one.optional) <= set(one.outputs), "optional names outputs"),
        (bool(one.optional) and not one.writes, "outputs that may be left out are written by the kernel (writes=)"),
        (bool(one.kernel) and bool(one.kernels), "'kernel' names one, and 'kernels' a function that makes several"),
        (bool(one.writes and one.differentiable), "a kernel that writes its outputs has no gradients"),
        (one.framework not in WRITABLE and bool(one.writes or one.in_place), "its arrays cannot be written"),
        (bool(unknown) and not one.proposed, f"write the axes of {', '.join(unknown)} in place of '...'"),
        (
            not callable(one.options) and ... in one.options.values() and not one.proposed,
            "write the values of options in place of '...'",
        ),
    ]
    if faults := [text for fault, text in wrong if fault]:
        raise ValueError(f"the description of {one.name}: {faults[0]}")
    if not callable(one.without):
        hold_reasons(one.name, one.without)


def hold_reasons(name: str, without: Mapping[str, str]) -> Mapping[str, str]:
    """Return the checks that are not asked, with the reason of each.

    Raises:
        ValueError: there is no such check, or a reason is none.
    """
    if not set(without) <= set(CHECKS):
        raise ValueError(f"the description of {name}: 'without' names checks: {', '.join(CHECKS)}")
    if any(len(str(reason).split()) < 2 for reason in without.values()):
        raise ValueError(f"the description of {name}: 'without' has a reason for each check")
    return without


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


# The words of a description, besides its inputs and ``outputs``:
#
# name            the operator's name in matrix.yaml, where the function is not called test_NAME
# direction       of a kernel that is one direction alone: the inputs of a backward are what it takes, such as tensors
#                 that the forward has saved and gradients that come in, and its outputs are the gradients
# framework       the arrays that the kernel takes and the plain code computes with
# rows            the axis that counts rows which do not read each other: many rows, no row, NaN in all rows but one
# fewest          the fewest rows that the kernel takes
# free            other axes, which may have any size from one on, as the width of a row
# writes          True: the kernel gets arrays for its outputs, after its inputs; else it returns its outputs
# optional        outputs that a caller may leave out: the kernel gets None in their place
# in_place        inputs that the kernel changes: they are outputs of the same names
# differentiable  inputs that have a gradient; the operator has a backward then
# options         further arguments of the kernel and of the plain code; or a function of the case's axes
# module          the arguments of a class of modules: inputs that are named as its parameters are put into it
# kernel          package.module:function, where matrix.yaml does not say it (toolchains.NAME.kernel); {backend}, {op}
#                 and axes of the case may stand in it
# kernels         module:function of the suite, in the kernel's process: it gets what is known of the case, and returns
#                 the kernel, or its variants by name, the chosen one first
# same_bits       False: another run may give other bits (atomic additions); it is held to the budget
# exact           True: the outputs are the very bits that plain code gives (a gather, a copy)
# compute         "case": plain code of the baseline rounds after each operation, as an optimizer in bf16 does
# baseline        a function that is called as the kernel is: what the error and the time are compared with, where that
#                 is not the plain code
# steps           how many rounded operations make an element one after the other, where the axes do not say it; or a
#                 function of the case's axes and the output
# units           a function of the case's axes and the golden: what "unit scale" is for each output
# ahead           the function of the suite that compiles for a target which is not here (module:function)
# draw            a function of the sizes and of a text that names the draw: it returns the inputs as arrays, where the
#                 words of an array do not say how it is drawn (a triangle, a table of places, rows that sum to one)
# proposed        where a program has read the description: every case is an error until a person takes this word out
# code            the function of the suite that returns the code that ran, where the package has it
# operators       the operators of the framework that the kernel may call besides those that move values
# forbidden       modules that the kernel may not import: what its results are compared with
# modes           further ways to call the forward, which give the same: under autocast, compiled, in another stream
# holds           functions of the suite (module:function): properties of the operator, each gets (run, inputs, outputs)
# once            the axes of the cases that have the checks which are made once, such as threads; else the first case
# without         checks that are not asked, each with the reason; or a function that returns them for a case
