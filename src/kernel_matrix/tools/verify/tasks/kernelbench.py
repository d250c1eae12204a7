"""Read KernelBench's form: ``Model``, ``get_inputs`` and ``get_init_inputs``; ``ModelNew`` in the candidate."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from kernel_matrix.kit.layouts import same_bytes
from kernel_matrix.tools.verify.inside.candidate import draw_what_is_constant, flat, seeded, shaped
from kernel_matrix.tools.verify.tasks import making, sizes, values
from kernel_matrix.tools.verify.tasks.reproducing import program_of_model
from kernel_matrix.tools.verify.tasks.task import Case, UndecidedError, UnusableError, as_array, flattened, seeds

_SMALL, _OWN = 0.001, 0.3  # seconds of a forward of a small task; of one that is run at its own sizes
_OWN_ON_CARD = 10.0
_NEEDED = ("Model", "get_inputs", "get_init_inputs")


# The cases of the small sizes, with the map of their values; some have the values of the first, at other places.
_VALUES = (
    *(
        ("as drawn", ""),
        ("both signs", "signs"),
        ("the middle other", "middle"),
        ("the same values elsewhere", "rolled"),
    ),
    *(("a row of zeros and a loud one", "loud"), ("small values", "small"), ("six times as large", "six")),
    *(("a hundred more", "shifted"), ("a hundred less", "less")),
)
_SAME = ("", "middle", "rolled")


class Step(NamedTuple):
    """A case to make: its sizes, the map of its values, its seed."""

    name: str
    numbers: Mapping[sizes.Place, int]
    kind: str
    seed: int


class KernelBench:
    """A task of KernelBench."""

    form, entry, patch, properties = "KernelBench", "ModelNew", True, False

    def __init__(self, source: str, *, device: str = "cpu", fixed: bool = False) -> None:
        """``fixed`` says that the task is for its own sizes alone.

        Raises:
            UnusableError: the reference lacks a name, or does not run.
        """
        self.source, self.device, self.fixed = source, device, fixed
        self.plain: tuple[str, str] | None = (source, "Model")
        self.identity = source
        self.modules: Mapping[str, str] = {}
        self.notes: list[str] = []
        self._seed, self._train, self._steps = seeds(), True, 1000
        try:
            made = sizes.module(source, {})
        except Exception as error:
            raise UnusableError(f"the reference cannot be loaded: {type(error).__name__}: {error}") from error
        if missing := [name for name in _NEEDED if not hasattr(made, name)]:
            raise UnusableError(f"the reference has no {', '.join(missing)}")

    def cases(self) -> tuple[list[Case], list[str]]:
        """Return the cases: small sizes, other values, other sizes, and the own sizes where they are cheap here."""
        small, plan, skipped = self._plan()
        done: list[Case] = []
        for step in plan:
            try:
                case, drawn = self._case(step, as_built=True), self._case(step)
                same = all(same_bytes(one, drawn.state[name]) for name, one in case.state.items())
                done.append(replace(drawn, whole=not done, as_built=None if same else replace(case, whole=not done)))
            except making.NotFiniteError:
                skipped.append(f"{step.name}: the reference gives NaN, Inf or subnormal numbers there")
            except Exception as error:  # whatever a reference raises for other values
                if step.name == "as drawn":
                    if isinstance(error, (UnusableError, UndecidedError)):
                        raise
                    raise UnusableError(f"{type(error).__name__}: {str(error)[:300]}") from error
                skipped.append(f"{step.name}: {type(error).__name__}: {str(error)[:100]}")
        if not done:
            raise UndecidedError("; ".join(skipped))
        if shown := sizes.named(self.source, small):
            self.notes.append(
                "smaller sizes than the task's: " + ", ".join(f"{n} {b} → {a}" for n, (b, a) in shown.items())
            )
        return done, skipped

    def _plan(self) -> tuple[dict[sizes.Place, int], list[Step], list[str]]:
        """Return the small sizes, the cases to make, and what is left out."""
        skipped, own, small, others = [], False, dict[sizes.Place, int](), dict[str, dict[sizes.Place, int]]()
        try:
            whole = sizes.price(self.source, {})
            self._steps = whole.longest
            own = whole.seconds < (_OWN if self.device == "cpu" else _OWN_ON_CARD)
            if not self.fixed:
                small, price = sizes.smaller(self.source, _SMALL)
                self._steps = price.longest
                others = sizes.others(self.source, small, random.Random(self._seed()), _SMALL)  # noqa: S311
            if not own:
                skipped.append(f"the task's own sizes: about {whole.seconds:.2g} s a forward here")
        except Exception as error:
            skipped.append(f"smaller sizes: {type(error).__name__}: {str(error)[:80]}")
        base = self._seed()
        plan = [Step(name, small, kind, base if kind in _SAME else self._seed()) for name, kind in _VALUES]
        plan += [Step(name, numbers, "", self._seed()) for name, numbers in others.items()]
        if not others and not self.fixed:
            skipped.append("other sizes: the task takes none")
        if own and small and sizes.named(self.source, small):
            plan.append(Step("the task's own sizes", {}, "", self._seed()))
        return small, plan, skipped

    def _case(self, step: Step, *, as_built: bool = False) -> Case:
        """Return a case; ``as_built`` leaves parameters that are constant as the constructor made them."""
        name, numbers, kind, seed = step
        inputs, arguments, model = self._drawn(numbers, kind, seed)
        leaves: list[Any] = []
        call = {"args": [flattened(one, leaves) for one in inputs], "words": {}}
        tensors_of_init: list[Any] = []
        built = [flattened(one, tensors_of_init) for one in arguments]
        if tensors_of_init:
            raise UndecidedError("the constructor takes tensors, which is not supported")
        model.train(self._train)
        state = {key: one.clone() for key, one in model.state_dict().items()}
        if not as_built:
            _draw_constants(state, seed)
        grads = any(one.requires_grad for one in leaves)
        reference = _reference(model, state, call, len(leaves), seed + 2, grads=grads)
        other = _reference(model, state, call, len(leaves), seed + 3, grads=grads)
        if _is_random((reference, other), leaves):
            if not self._train:
                raise UndecidedError("the reference draws numbers, so nobody knows what is right")
            self._train = False
            self.notes.append("random in training mode: compared in eval()")
            return self._case(step, as_built=as_built)
        if not as_built and step.name == "as drawn":
            self._check_repeats(step, _reference(model, {}, call, len(leaves), seed + 2, grads=grads), call, leaves)

        case = making.made(
            name, seed, {"args": inputs}, reference,
            redraw=lambda other: self._redrawn(step, other), weights=state, steps=self._steps,
            differentiable=grads, trained=[key for key, one in model.named_parameters() if one.requires_grad],
            build={
                "call": {"args": built, "words": {}}, "train": self._train, "seed": seed + 1,
                "keep": kind == "signs" and bool(state) and not _has_other_tensors(model),
            },
            state={key: as_array(one) for key, one in state.items()},
            sizes=sizes.named(self.source, numbers),
            recipe={"numbers": dict(numbers), "kind": kind, "seed": seed, "train": self._train},
        )  # fmt: skip
        making.check_finite(case)
        return case

    def _redrawn(self, step: Step, other: int) -> list[Any]:
        """Return the tensors of the inputs for another seed."""
        again: list[Any] = []
        for one in self._inputs(sizes.module(self.source, step.numbers), step.kind, other, step.seed):
            flattened(one, again)
        return again

    def _check_repeats(self, step: Step, first: making.Reference, call: Any, leaves: list[Any]) -> None:
        """Build the reference once more from its seed, and compare.

        Raises:
            UndecidedError: it is another one.
        """
        again = self._drawn(step.numbers, step.kind, step.seed)[2].train(self._train)
        second = _reference(again, {}, call, len(leaves), step.seed + 2, grads=False)
        if _is_random((first, second), leaves):
            raise UndecidedError("the reference has a state that no seed determines")

    def _drawn(self, numbers: Mapping[sizes.Place, int], kind: str, seed: int) -> tuple[list[Any], list[Any], Any]:
        """Return the inputs, the constructor's arguments and the module; the seed determines them."""
        made = sizes.module(self.source, numbers)
        inputs, arguments = self._inputs(made, kind, seed, seed), list(made.get_init_inputs())
        with _drawn_constants():
            seeded(seed + 1)
            model = made.Model(*arguments)
        return inputs, arguments, model

    def _inputs(self, made: Any, kind: str, seed: int, of_map: int) -> list[Any]:
        """Return the inputs of a seed, with the values that a map makes of them."""
        if kind:
            seeded(seed + 1)
            others = list(made.get_inputs())
        seeded(seed)
        inputs = list(made.get_inputs())
        return values.mapped(inputs, kind, of_map, others) if kind else inputs

    def program(self, case: Case, candidate: str) -> dict[str, str]:
        """Return the files of a program that shows the case without this project."""
        reference = sizes.text(self.source, case.recipe["numbers"])
        show = program_of_model({**case.recipe, "device": self.device})
        return {"show.py": show, "reference.py": reference, "candidate.py": candidate}


def _draw_constants(state: Mapping[str, Any], seed: int) -> None:
    """Draw anew each tensor of weights that has one value everywhere: a gain of ones that is left out is seen then."""
    seeded(seed + 5)
    for one in state.values():
        if one.is_floating_point() and one.numel() > 1 and bool((one == one.flatten()[0]).all()):
            value = one.flatten()[0].clone()
            one.copy_(torch.rand(one.shape) + 0.5 if value else torch.rand(one.shape) - 0.5)
            one.mul_(value) if value else None


@contextlib.contextmanager
def _drawn_constants() -> Iterator[None]:
    kept = torch.nn.init.ones_, torch.nn.init.zeros_
    draw_what_is_constant()
    try:
        yield
    finally:
        torch.nn.init.ones_, torch.nn.init.zeros_ = kept


def _reference(
    model: Any, state: Mapping[str, Any], call: Any, count: int, seed: int, *, grads: bool
) -> making.Reference:
    """Return the model as a function of its tensors, and of its weights behind them, in the dtype of these."""
    wide_model, names = _widened(model), [name for name in state if name not in _tied(model)]
    wide_state = {name: one.double() if one.is_floating_point() else one for name, one in state.items()}

    def reference(*tensors: Any) -> list[Any]:
        wide = any(one.dtype == torch.float64 for one in tensors)
        own = dict(zip(state, tensors[count:], strict=True)) if len(tensors) > count else wide_state if wide else state
        arguments, words = shaped(call, tensors[:count])
        before = torch.get_default_dtype()
        seeded(seed)
        torch.set_default_dtype(torch.float64 if wide else torch.float32)
        try:
            with torch.set_grad_enabled(grads), making.Wide() if wide else contextlib.nullcontext():
                given = {name: own[name].clone() for name in names}
                return list(
                    flat(torch.func.functional_call(wide_model if wide else model, given, tuple(arguments), words))
                )
        finally:
            torch.set_default_dtype(before)

    return reference


def _tied(model: Any) -> set[str]:
    """Return the other names of tensors that have two: PyTorch takes a tensor once."""
    once, every = (
        [*model.named_parameters(remove_duplicate=drop), *model.named_buffers(remove_duplicate=drop)]
        for drop in (True, False)
    )
    return {name for name, _ in every} - {name for name, _ in once}


def _widened(model: Any) -> Any:
    """Return a copy of the model in float64, with tensors that are no parameters too."""
    wide = copy.deepcopy(model).double()
    for part in wide.modules():
        for name, one in list(vars(part).items()):
            if isinstance(one, torch.Tensor) and one.is_floating_point():
                setattr(part, name, one.double())
    return wide


def _has_other_tensors(model: Any) -> bool:
    """Return whether it has tensors that are neither parameters nor buffers: other weights do not replace them."""
    return any(isinstance(one, torch.Tensor) for part in model.modules() for one in vars(part).values())


def _is_random(references: Sequence[making.Reference], leaves: list[Any]) -> bool:
    """Return whether the same model with another seed gives another result."""
    one, other = (reference(*(leaf.clone() for leaf in leaves)) for reference in references)
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a.shape == b.shape and bool(torch.isfinite(a).all())]
    return any(not torch.equal(a, b) for a, b in pairs)
