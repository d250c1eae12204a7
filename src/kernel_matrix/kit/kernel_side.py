"""The kernel's process: find the kernel, call it on guarded arrays, and send back all bytes that were around it.

What the process that compares says of an operator comes as JSON; neither the description nor its plain code is used
here. Bytes of inputs, of outputs that the kernel writes and of their guards go back as they are, and are compared where
the kernel cannot reach. What can only be seen here (state, addresses, scratch) finds accidents: a kernel that wants to
could forge it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernel_matrix.job.inputs import Array
from kernel_matrix.job.worker import Unavailable, enter_stage
from kernel_matrix.kit import forbidden, state, together
from kernel_matrix.kit.calls import as_called, by_name
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.kit.frameworks.base import Call, Framework
from kernel_matrix.kit.laying import FILLS, Arrays, Kernel, arrays_of
from kernel_matrix.kit.layouts import PACKED, UNWRITTEN

Answer = tuple[Any, Mapping[str, Array]]

_PERTURB = {"nan": 0x80, "small": 0xFE, "usual": 0xC0}  # glibc fills with the complement
RECORDED = "gradients recorded"  # the mode in which every input of floats asks for a gradient
_M_PERTURB = -6  # mallopt(3)

_found: dict[str, Any] = {}
_kept: dict[str, Any] = {}  # the results of an earlier run


def run(
    arrays: Mapping[str, Array],
    *,
    kernel: Kernel,
    secret: int,
    layout: str = PACKED,
    poison: str = "",
    fresh: bool = False,
    asked: Sequence[str] = (),
    keep: bool = False,
    mode: str = "",
    times: int = 1,
    variant: str = "",
    runs: int = 1,
    rows: int = 1,
    first: bool = False,
) -> Answer:
    """Call the kernel, ``fresh`` with other addresses; return facts, its results, and the bytes of its arrays."""
    frame, call = framework(kernel["framework"]), found(kernel, variant)
    given = arrays_of(arrays, kernel, frame, secret, layout, fresh, FILLS[poison], rows)
    facts, marks = dict[str, Any](), given.marks(kernel["args"])
    leaves = list(kernel["floats"]) if mode == RECORDED else list(asked)
    with (
        _noted(frame, kernel) as operators,
        _watched(frame, facts, first=first),
        poisoned(frame, poison, kernel["device"], guarded=kernel["guards"]) as scratch,
    ):
        with frame.mode(mode, [given.by_name[name] for name in kernel["args"]]):
            call = (call[0], frame.in_mode(call[1], mode)) if call[1] else (frame.in_mode(call[0], mode), None)
            once = functools.partial(called, kernel, frame, call, given, leaves, with_gradients=not mode, times=times)
            rounds, earlier = _several(kernel, frame, given, once, runs, keep=keep)
        facts["subnormal"] = state.subnormal_flag() if poison else None
    facts |= _of_results(kernel, frame, given, rounds[0]) | {"operators": sorted(operators)}
    back = given.back() | _returned(kernel, frame, rounds) | earlier
    facts |= {"scratch": scratch.overran() if scratch else [], "marked": _differing(marks, given.marks(kernel["args"]))}
    del rounds  # what is held now, the kernel holds
    facts |= {"kept": scratch.kept() if scratch and not keep else 0, "compiles": frame.compiles()}
    return facts, back


def _several(
    kernel: Kernel, frame: Framework, given: Arrays, once: Callable[[], Any], runs: int, *, keep: bool
) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Run so often; return what the last run gave, and arrays of those before it with their numbers."""
    rounds: list[dict[str, Any]] = []
    earlier: dict[str, Array] = {}
    unwritten = given.written(kernel) if runs > 1 else {}
    for number in range(runs):
        rounds = once()
        if keep and not number:
            _kept.update(frame=frame, results=rounds[0])
        if number + 1 == runs:
            break
        there = given.written(kernel) | _returned(kernel, frame, rounds)
        earlier |= {f"{number}/{name}": one for name, one in there.items()}
        given.refill(unwritten)
        rounds = []  # the kernel may take the memory again
    return rounds, earlier


def _returned(kernel: Kernel, frame: Framework, rounds: list[dict[str, Any]]) -> dict[str, Array]:
    """Return the arrays that each round gave back."""
    return {
        f"out{number} {name}": frame.taken(one)
        for number, results in enumerate(rounds)
        for name, one in results.items()
        if one is not None and name not in kernel["writes"]
    }


def _differing(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the inputs of which something other than their elements has changed, in words."""
    changed = {
        name: [word for word, mark in marks.items() if mark != before[name][word]] for name, marks in after.items()
    }
    return [f"{name} ({', '.join(words)})" for name, words in changed.items() if words]


def _noted(frame: Framework, kernel: Kernel) -> contextlib.AbstractContextManager[set[str]]:
    return frame.noted() if kernel["computes"] else contextlib.nullcontext(set())


@contextlib.contextmanager
def _watched(frame: Framework, facts: dict[str, Any], *, first: bool = False) -> Iterator[None]:
    """Note what of the process's state a block changes, and set it back, after an error too."""
    enter_stage("launch")
    if first:  # of a case
        frame.begin()
    before = state.now(frame.state())
    try:
        yield
    finally:
        facts["changed"] = state.restore(before, frame.state())


def called(
    kernel: Kernel,
    frame: Framework,
    call: Any,
    given: Arrays,
    leaves: list[str],
    *,
    with_gradients: bool = True,
    times: int = 1,
) -> list[dict[str, Any]]:
    """Call the kernel, and wait for its device."""
    incoming = {name: given.by_name[name] for name in kernel["incoming"]} if with_gradients else {}
    frame.insist()
    given.called_with = _of_call(kernel, given)  # the framework puts leaves of autograd in the place of some
    try:
        rounds = frame.results(_call(kernel, call, given), given.called_with, leaves, incoming, times=times)
        frame.wait(kernel["device"])
    except Exception as error:
        raise _unavailable(error, kernel["device"]) from None
    return rounds


def kept(_: Mapping[str, Array]) -> Answer:
    """Return the results of the run that was to be kept, as they are now, and forget them."""
    frame, results = _kept.pop("frame"), _kept.pop("results")
    return None, {name: frame.taken(one) for name, one in results.items() if one is not None}


def in_threads(arrays: Mapping[str, Array], *, kernel: Kernel, asked: Sequence[str]) -> Answer:
    """Run the kernel in two threads, each on its own inputs ("1 NAME", "2 NAME"); return outputs with other bits."""
    frame, call = framework(kernel["framework"]), found(kernel)
    both = []
    for which in "12":
        values = {name[2:]: one for name, one in arrays.items() if name[0] == which}
        both.append(arrays_of(values, kernel, frame, 1, PACKED, True, UNWRITTEN))
    unwritten = [given.written(kernel) for given in both]

    def once(given: Arrays) -> dict[str, bytes]:
        given.refill(unwritten[both.index(given)])
        [results] = called(kernel, frame, call, given, list(asked))
        return {name: frame.taken(one).tobytes() for name, one in results.items() if one is not None}

    with _watched(frame, {}):
        return together.differing(once, both), {}


def variants(_: Mapping[str, Array], *, kernel: Kernel) -> Answer:
    """Return the names of the kernel's variants, the chosen one first; its name is empty."""
    return list(_made(kernel)) if kernel["makes"] else [""], {}


def ask(arrays: Mapping[str, Array], *, kernel: Kernel, path: str) -> Answer:
    """Call a function of the suite with the kernel's facts and arrays of the framework; return its value."""
    frame = framework(kernel["framework"])
    given = {name: frame.given(one, kernel["device"]) for name, one in arrays.items()}
    _refuse(kernel)
    enter_stage("launch")
    return _of(path)(kernel["case"], given), {}


def found(kernel: Kernel, variant: str = "") -> Any:
    """Import ``package.module:function``, or what else can be called; or have the suite make the kernel."""
    if kernel["makes"]:
        made = _made(kernel)
        return made.get(variant, made[""]), None  # a variant that is not there is the chosen one
    path = kernel["function"]
    if path not in _found:
        enter_stage("import")
        value = _of(path)
        special = framework(kernel["framework"]).callable_of(value, kernel["module"])
        _found[path] = (value, special)
    return _found[path]


def _made(kernel: Kernel) -> Mapping[str, Any]:
    """Return the kernels that the suite makes for a case, by the names of the variants."""
    _refuse(kernel)
    path = kernel["function"]
    if path not in _found:
        enter_stage("import")
        _found[path] = _of(path)
    made = _found[path](kernel["case"])
    return made if isinstance(made, Mapping) else {"": made}


def _refuse(kernel: Kernel) -> None:
    forbidden.refuse(kernel["forbidden"] if kernel["computes"] else ())


def _of(path: str) -> Any:
    module, _, name = path.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _of_call(kernel: Kernel, given: Arrays) -> dict[str, Any]:
    return {name: given.by_name[name] for name in kernel["args"]}


def _call(kernel: Kernel, call: Any, given: Arrays) -> Call:
    """Return how the kernel is called: arrays in, results by their names out."""
    function, special = call
    outs = given.outputs(kernel)
    every = [] if outs else [name for name in kernel["results"] if name not in kernel["in_place"]]
    returned = [name for name in every if name in kernel["outputs"]]
    into = as_called(kernel["results"], outs, there=bool(kernel["writes"]))

    def calling(arrays: dict[str, Any]) -> dict[str, Any]:
        if special is not None:
            options = kernel["options"] if kernel["module"] is None else {}
            result = special({**dict.fromkeys(kernel["inputs"]), **arrays, **options})
        else:
            result = function(*as_called(kernel["inputs"], arrays), *into, **kernel["options"])
        in_place = {name: arrays[name] for name in kernel["in_place"]}
        return outs | in_place | by_name(result, every, returned)

    return calling


def _of_results(kernel: Kernel, frame: Framework, given: Arrays, results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return which results lie in an input, which have several elements in one place, and which are no usual arrays.

    Gradients may: that of a sum is an expanded array, and nobody writes into it.
    """
    if kernel["incoming"]:
        return {"aliases": [], "overlaps": [], "odd": []}
    there = {name: one for name, one in results.items() if one is not None}
    own = {id(one) for one in given.called_with.values()}
    odd = {name: frame.oddness(one) for name, one in there.items() if id(one) not in own}
    return {
        "aliases": _aliases(kernel, frame, given, there),
        "overlaps": [name for name, one in there.items() if not odd.get(name) and frame.overlaps(one)],
        "odd": [f"{name} {text}" for name, text in odd.items() if text],
    }


def _aliases(kernel: Kernel, frame: Framework, given: Arrays, results: Mapping[str, Any]) -> list[str]:
    """Return the results that lie in the memory of an input, in words."""
    found_there = []
    for name, value in results.items():
        first, last = frame.extent(value)
        if name in kernel["writes"] or name in kernel["in_place"] or first == last:
            continue
        for other in kernel["args"]:
            start, end = frame.extent(given.by_name[other])
            if start < last and first < end:
                found_there.append(f"{name} lies in its input {other}")
    return found_there


@contextlib.contextmanager
def poisoned(frame: Framework, kind: str, device: str, *, guarded: bool = True) -> Iterator[Any]:
    """Poison what is allocated until the block ends, by the framework and by the C library."""
    if not kind:
        yield None
        return
    _perturb(_PERTURB[kind])
    try:
        with frame.scratch(kind, device, guarded=guarded) as scratch:
            state.subnormal_flag(clear=True)
            yield scratch
    finally:
        _perturb(0)


def _perturb(byte: int) -> None:
    """Have glibc fill what it hands out with the complement of ``byte``; 0 switches that off. Elsewhere do nothing."""
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_PERTURB, byte)


def settle(_: Mapping[str, Array], *, collect: bool) -> Answer:
    """Give free memory of the C library back to the system; ``collect`` frees what only a cycle of objects holds."""
    if collect:
        gc.collect()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    return None, {}


def _unavailable(error: Exception, device: str) -> Exception:
    """Return the error; one of a device that is not here as such."""
    missing = device != "cpu" and any(word in str(error) for word in ("No CUDA GPUs are available", "no NVIDIA driver"))
    return Unavailable(str(error)) if missing else error
