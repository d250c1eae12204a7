"""The candidate's side: load it, build it, call it. Every answer of this module may be forged; the judge knows that.

The kit calls :func:`forward` as it calls any kernel. What goes in and comes out is flat: tensors in an order, and the
form of the call as JSON (``{"t": 0}`` is the first tensor, ``{"v": 1.5}`` a value).
"""

from __future__ import annotations

import itertools
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernel_matrix.job.inputs import Array
from kernel_matrix.job.worker import Answer
from kernel_matrix.kit import kernel_side
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.tools.verify.inside import notes

# Before a candidate runs: a name that it replaces in a module is not the one that is called here.
_Tensor, _no_grad, _frame = torch.Tensor, torch.no_grad, framework("torch")
_sleep = torch.cuda._sleep
_CYCLES = 100_000_000  # of a card: a twentieth of a second, in which all of a call is in its queues

_manual_seed, _of_cpu = torch.manual_seed, torch.default_generator

_now: dict[str, Any] = {}  # the candidate: its module, what is called, and the form of the call
_noted: list[notes.Notes] = []
FILE = "candidate.py"


def ready() -> None:
    """Import what the first call would."""
    notes.fingerprint()


def seeded(seed: int) -> None:
    """Seed PyTorch's generators. Where no card has begun it is the CPU's alone: PyTorch would keep the stacks."""
    (_manual_seed if torch.cuda.is_initialized() else _of_cpu.manual_seed)(seed)


def begin(_: Mapping[str, Array], *, device: str) -> Answer:
    """Have the card compute, so that it has begun before anything is watched."""
    return float((torch.ones(2, device=device) + 1).sum()), {}


def load(_: Mapping[str, Array], *, source: str, entry: str, modules: Mapping[str, str], patch: bool) -> Answer:
    """Run the candidate's text as a module; ``modules`` are texts of modules that its form has beside it."""
    torch.set_num_threads(1)  # a fork's pool is made anew here: two threads that come first at once would find none
    _noted.append(notes.Notes())
    if patch:
        draw_what_is_constant()
    with _noted[0]:
        found = found_in(source, entry, modules)
    notes.note_failed_launches(_noted[0])
    _now.update(entry=found, target=found)
    return None, {}


def found_in(source: str, entry: str, modules: Mapping[str, str]) -> Any:
    """Run a text as the module ``candidate``, and return what is called ``entry`` there.

    Raises:
        NameError: it is not there.
    """
    path = os.path.join(os.getcwd(), FILE)  # noqa: PTH109, PTH118 (Triton reads the file)
    with open(path, "w") as file:  # noqa: PTH123
        file.write(source)
    for beside, text in modules.items():
        sys.modules[beside] = _run(types.ModuleType(beside), text, f"<{beside}>")
    module = types.ModuleType("candidate")
    module.__file__ = path
    sys.modules["candidate"] = module
    found: Any = _run(module, source, path)
    for part in entry.split("."):
        if not hasattr(found, part):
            raise NameError(f"the candidate has no {entry}")
        found = getattr(found, part)
    return found


def _run(module: types.ModuleType, text: str, path: str) -> types.ModuleType:
    exec(compile(text, path, "exec"), module.__dict__)  # noqa: S102 (the sandbox is there for it)
    return module


def draw_what_is_constant() -> None:
    """Have constructors draw the parameters that start as ones or zeros: else a gain that is left out is not seen."""

    def ones(tensor: Any) -> Any:
        with _no_grad():
            return tensor.uniform_(0.5, 1.5)

    def zeros(tensor: Any) -> Any:
        with _no_grad():
            return tensor.uniform_(-0.5, 0.5)

    torch.nn.init.ones_, torch.nn.init.zeros_ = ones, zeros


def build(state: Mapping[str, Array], *, seed: int, call: Any, train: bool, device: str, keep: bool = False) -> Answer:
    """Construct the candidate's module from the seed, and give it the reference's weights; say how they came.

    With ``keep`` the module that is there gets other weights: one that keeps old ones is seen.
    """
    seeded(seed)
    arguments, words = shaped(call, [])
    with _noted[0]:
        model = _now["target"] if keep else _now["entry"](*arguments, **words)
    how, weights = "no module", dict[str, str]()
    if isinstance(model, torch.nn.Module):
        model.train(train)
        place = device if keep else "cpu"
        theirs = {name: _frame.given(np.array(one), "cpu").to(place) for name, one in state.items()}
        how, weights = matched(dict(model.state_dict()), theirs)
        model.to(device)
    own = dict(model.state_dict(keep_vars=True)) if weights else {}
    _now.update(target=model, weights=[own[weights[name]] for name in state if name in weights])
    return how, {}


def matched(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Copy the reference's weights where they are not there already; say by what, and by which name each is there."""
    if not theirs:
        return "none needed" if not own else "weights of its own", {}
    shapes = [{name: tuple(one.shape) for name, one in weights.items()} for weights in (own, theirs)]
    mine, given = (list(one.values()) for one in shapes)
    in_order = dict(zip(theirs, own, strict=False))
    if mine == given and all(
        torch.equal(own[in_order[name]], one.to(own[in_order[name]].dtype)) for name, one in theirs.items()
    ):
        return "seed", in_order
    if shapes[0] == shapes[1]:
        how, names = "name", {name: name for name in theirs}
    elif mine == given:
        how, names = "order", in_order
    elif len(set(given)) == len(given) and sorted(given) == sorted(mine):
        how, names = "shape", {name: list(own)[mine.index(shape)] for name, shape in shapes[1].items()}
    else:
        return "seed only", {}
    with _no_grad():
        for name, one in theirs.items():
            own[names[name]].copy_(one)
    return how, names


def form(_: Mapping[str, Array], **words: Any) -> Answer:
    """Take what holds for the next calls: ``call``, the ``seed`` before each, ``in_place``, and the numbers of results.

    With ``copies`` a result that lies in an input is copied: the reference does that too.
    """
    _now.update(words)
    return None, {}


def forward(*tensors: Any) -> Any:
    """Call the candidate, and return the tensors that it gives, but not those that it was to change in place.

    Behind the tensors of the call may stand the values of its weights, whose gradients are asked then.

    Raises:
        TypeError: they are more or fewer than the reference gives.
    """
    count = _now["inputs"]
    return list(_Module.apply(count, *tensors)) if len(tensors) > count else _called(tensors)


def _called(tensors: Sequence[Any]) -> list[Any]:
    arguments, words = shaped(_now["call"], tensors)
    cards = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=cards):
        seeded(_now["seed"])
        with _noted[0], torch.set_grad_enabled(_now["grad"] or any(one.requires_grad for one in tensors)):
            results = list(flat(_now["target"](*arguments, **words)))
        if _of_cpu.initial_seed() != _now["seed"]:
            _noted[0].note("seed", "another one")
    changed = {tensors[place].untyped_storage().data_ptr() for place in _now["in_place"]}
    if changed:
        results = [one for one in results if one.untyped_storage().data_ptr() not in changed]
    for one in results:
        if type(one) not in (_Tensor, torch.nn.Parameter):
            _noted[0].note("subclass", type(one).__name__)
    if len(results) != _now["outputs"]:
        raise TypeError(f"the candidate returned {len(results)} tensors, for {_now['outputs']}")
    return [one.clone() for one in results] if _now["copies"] else results


class _Module(torch.autograd.Function):  # type: ignore[misc]  # PyTorch has no types here
    """The candidate as a function of its weights too: they stay its own, and their gradients come out."""

    @staticmethod
    def forward(context: Any, count: int, *tensors: Any) -> Any:
        """Put values into the weights, and call the candidate on leaves of its own."""
        needed = context.needs_input_grad[1 : 1 + count]
        leaves = [one.detach().requires_grad_(asked) for one, asked in zip(tensors[:count], needed, strict=True)]
        weights = _now["weights"]
        with _no_grad():
            for own, one in zip(weights, tensors[count:], strict=True):
                if not torch.equal(own, one.to(own.dtype)):
                    own.copy_(one)
        with torch.enable_grad():
            results = _called(leaves)
        context.kept = results, [*leaves, *weights]
        given = [one.detach() for one in results]
        context.mark_non_differentiable(*(one for one in given if not one.is_floating_point()))
        return tuple(given)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        """Ask the candidate for the gradients that are asked for, and for no other."""
        results, leaves = context.kept
        asked = [place for place, needed in enumerate(context.needs_input_grad[1:]) if needed]
        tops = [(one, come) for one, come in zip(results, gradients, strict=True) if one.requires_grad]
        if not tops:
            raise RuntimeError("no result of it has a gradient")
        there = [place for place in asked if leaves[place].requires_grad]
        found = torch.autograd.grad(
            [one for one, _ in tops],
            [leaves[place] for place in there],
            [come for _, come in tops],
            allow_unused=True,
            retain_graph=True,
        )
        by_place = dict(zip(there, found, strict=True))
        return None, *(by_place.get(place) for place in range(len(leaves)))


def shaped(call: Any, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, positional and by name."""
    return [_value(one, tensors) for one in call["args"]], {n: _value(one, tensors) for n, one in call["words"].items()}


def _value(told: Any, tensors: Sequence[Any]) -> Any:
    (kind, value), *_ = told.items()
    if kind == "t":
        return tensors[value]
    if kind in ("list", "tuple"):
        several = [_value(one, tensors) for one in value]
        return several if kind == "list" else tuple(several)
    if kind == "dict":
        return {name: _value(one, tensors) for name, one in value}
    if kind == "torch":
        return getattr(torch, value)
    return value


def flat(result: Any) -> Iterator[Any]:
    """Yield the tensors of a result, those of a dictionary in the order of its names.

    Raises:
        TypeError: there is something else in it.
    """
    if isinstance(result, _Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        yield from itertools.chain.from_iterable(map(flat, result))
    elif isinstance(result, dict):
        yield from itertools.chain.from_iterable(flat(one) for _, one in sorted(result.items()))
    elif isinstance(result, (bool, int, float)):
        yield torch.tensor(result)
    elif result is not None:
        raise TypeError(f"the candidate returned {type(result).__name__}, which is no tensor")


def again_and_again(
    arrays: Mapping[str, Array], *, order: Sequence[tuple[int, float]], device: str, late: bool = False
) -> Answer:
    """Call the candidate once for each of ``order``, a number of a draw of its inputs and a factor; keep the results.

    Which of them the judge looks at, it says when all have been given. The names of arrays begin with the number of
    their draw. All calls get the same tensors, with other values in them. With ``late`` the card writes these values
    long after the call: work that waits for them sees them.
    """
    draws: dict[int, list[Any]] = {}
    for name, one in arrays.items():
        draws.setdefault(int(name.partition(" ")[0]), []).append(_frame.given(np.array(one), device))
    tensors, kept = [one.clone() for one in draws[0]], []
    for number, factor in order:
        if late:
            _sleep(_CYCLES)
        for one, other in zip(tensors, draws[number], strict=True):
            one.data.copy_(scaled(other, factor))  # at the same address, and no version of the tensor tells it
        results = forward(*tensors)
        kept.append([one.clone() for one in results] if late else results)  # by the stream of the caller
    if device != "cpu":
        torch.accelerator.synchronize()
    _now["results"] = kept
    return None, {}


def scaled(tensor: Any, factor: float) -> Any:
    """Return a tensor times a factor, where it has no whole numbers."""
    return tensor.detach() * factor if factor != 1 and tensor.is_floating_point() else tensor


def results_at(_: Mapping[str, Array], *, places: Sequence[int]) -> Answer:
    """Return the results of some of these calls."""
    kept = {place: _now["results"][place] for place in places}
    return None, {f"{place} {n}": _frame.taken(one) for place, several in kept.items() for n, one in enumerate(several)}


def observed(arrays: Mapping[str, Array], *, device: str) -> Answer:
    """Call twice on values that are new to the candidate; return which of PyTorch's operators compute, and its errors.

    ``again`` has the operators of the second call: a candidate that keeps answers computes nothing there.
    """
    tensors = [_frame.given(np.array(one), device) for one in arrays.values()]
    with notes.caught_errors() as caught:
        first = notes.operators(lambda: forward(*tensors))
    return {"first": first, "again": notes.operators(lambda: forward(*tensors)), "caught": sorted(caught)[:5]}, {}


def launched(arrays: Mapping[str, Array], *, device: str) -> Answer:
    """Call with each launch of a Triton kernel replaced by nothing; return how many there were, and the results."""
    tensors = [_frame.given(np.array(one), device) for one in arrays.values()]
    with notes.no_launches() as count, kernel_side.poisoned(_frame, "nan", device):
        results = forward(*tensors)
    return count[0], {f"out{place}": _frame.taken(one) for place, one in enumerate(results)}


def inspect(_: Mapping[str, Array]) -> Answer:
    """Return what was noted of the candidate."""
    return _noted[0].told(), {}
