"""Triton's launches hand over the right values, to a device function and a driver that are made up."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget

from mhc.backends import load
from mhc.backends.triton import kernel, prepared
from mhc.backends.triton.launch import Config, Launch, scratch
from spy import arguments, call

DEVICE = torch.device("cuda", 0)


class Compiled:
    """A binary that keeps what it is launched with."""

    function, packed_metadata = "function", "metadata"

    def __init__(self):
        self.launched = []
        self.error = None

    def run(self, *arguments):
        if self.error:
            raise self.error
        self.launched.append(arguments)


class Function:
    """A device function ``f(x, tokens, FIRST, SECOND)`` with one binary that Triton knows."""

    arg_names = ("x", "tokens", "FIRST", "SECOND")

    def __init__(self):
        self.compiled = Compiled()
        self.warmed, self.run = 0, []

    def warmup(self, *arguments, grid, **constants):
        self.warmed += 1
        return self.compiled

    def __getitem__(self, grid):
        return lambda *arguments, **constants: self.run.append((grid, arguments, constants))


@pytest.fixture
def function(monkeypatch):
    monkeypatch.setattr(prepared, "JITFunction", Function)
    streams = SimpleNamespace(get_current_stream=lambda index: f"stream of {index}")
    monkeypatch.setattr(prepared, "driver", SimpleNamespace(active=streams))
    return Function()


def launches_of(function, x, tokens=5):
    return lambda: [Launch(function, Config({"SECOND": 2, "FIRST": 1}, {"num_warps": 4}), (7, 3), (x, tokens))]


def launch(plan, function, x, tokens=5):
    return plan.launch(launches_of(function, x, tokens), (x,), DEVICE)


def test_the_second_launch_goes_to_the_binary(function):
    x, plan = torch.zeros(8), prepared.Prepared(bare=True)
    assert launch(plan, function, x) is None
    assert function.run == [((7, 3), (x, 5), {"SECOND": 2, "FIRST": 1, "num_warps": 4})]
    assert not function.compiled.launched
    again = launch(plan, function, x, 6)
    # The constants come in the order of the function's parameters, whatever the configuration's order.
    expected = (7, 3, 1, "stream of 0", "function", "metadata", None, None, None, x.data_ptr(), 6, 1, 2)
    assert function.compiled.launched == [expected]
    assert (function.warmed, len(function.run)) == (1, 1)
    assert again.launch([x.data_ptr() + 16])
    assert function.compiled.launched[1][9:11] == (x.data_ptr() + 16, 6)
    assert not again.launch([x.data_ptr() + 4])


def test_a_recorded_call_has_the_addresses_of_its_own_tensors(function, monkeypatch):
    """Scratch memory is allocated anew, and the pieces of one allocation keep their places."""
    plan, made, device = prepared.Prepared(bare=True), [], torch.device("cpu")

    def launches_with(x, out):
        def launches():
            made.append(x)
            _, second = scratch(x, 8, 8)
            other = torch.empty(4, dtype=torch.bfloat16)
            return [Launch(function, Config({"FIRST": 1, "SECOND": 2}, {}), (7,), (out, second, x, other, None, 5))]

        return launches

    monkeypatch.setattr(Function, "arg_names", ("out", "second", "x", "other", "no", "tokens", "FIRST", "SECOND"))
    allocated, empty = [], torch.empty

    def kept(*sizes, **options):
        allocated.append(empty(*sizes, **options))
        return allocated[-1]

    monkeypatch.setattr(torch, "empty", kept)
    again = None
    for _ in range(4):
        x, out = torch.zeros(8), torch.zeros(8)
        if again is None or not again.launch([x.data_ptr(), out.data_ptr()]):
            again = plan.launch(launches_with(x, out), (x, out), device)
        if again is not None:
            begin = allocated[-1].data_ptr()
            expected = (out.data_ptr(), begin + 32, x.data_ptr(), begin + 512, None, 5, 1, 2)
            assert function.compiled.launched[-1][9:] == expected
            assert allocated[-1].nbytes == 1024
    assert (len(made), len(function.compiled.launched)) == (2, 3)  # one to compile, and one to record
    alive = weakref.ref(x), weakref.ref(out)
    made.clear()
    function.run.clear()
    del x, out
    assert [each() for each in alive] == [None, None], "a recorded call keeps a tensor"


def test_a_call_with_one_tensor_twice_is_not_recorded(function):
    """The next call may have two."""
    plan, config = prepared.Prepared(bare=True), Config({"FIRST": 1, "SECOND": 2}, {})

    def call(x, y):
        plan.launch(lambda: [Launch(function, config, (1,), (x, y))], (x, y), DEVICE)

    x, y = torch.zeros(8), torch.zeros(8)
    call(x, x)
    call(x, x)
    assert not function.compiled.launched
    call(x, y)
    assert function.compiled.launched[0][9:11] == (x.data_ptr(), y.data_ptr())


def test_a_view_of_a_tensor_is_no_scratch(function):
    plan, config = prepared.Prepared(bare=True), Config({"FIRST": 1, "SECOND": 2}, {})
    for _ in range(3):
        x, y = torch.zeros(8), torch.zeros(8)
        part = x[4:]
        plan.launch(lambda y=y, part=part: [Launch(function, config, (1,), (part, y))], (x, y), DEVICE)
        assert function.run[-1][1][0] is part


def test_a_tensor_that_is_not_aligned_gets_a_binary_of_its_own(function):
    whole, plan = torch.zeros(9), prepared.Prepared(bare=True)
    part = whole[1:]
    assert part.data_ptr() % 16
    for x in (whole, part, whole, part):
        launch(plan, function, x)
    assert [arguments[0] is part for _, arguments, _ in function.run] == [False, True, True]
    assert [launched[9] for launched in function.compiled.launched] == [whole.data_ptr()]


def test_where_a_binary_depends_on_more_triton_finds_it_each_time(function):
    x, plan = torch.zeros(8), prepared.Prepared(bare=False)
    for _ in range(3):
        launch(plan, function, x)
    assert (len(function.run), function.warmed) == (3, 1)
    assert not function.compiled.launched


def test_where_a_profiler_has_a_hook_triton_launches(function, monkeypatch):
    x, plan = torch.zeros(8), prepared.Prepared(bare=True)
    runtime = SimpleNamespace(launch_enter_hook=None, launch_exit_hook=SimpleNamespace(calls=[]))
    monkeypatch.setattr(prepared, "knobs", SimpleNamespace(runtime=runtime))
    for _ in range(3):
        launch(plan, function, x)
    assert (len(function.run), len(function.compiled.launched)) == (1, 2)
    for hooks in ({"launch_enter_hook": object()}, {"launch_exit_hook": SimpleNamespace(calls=["a function"])}):
        runtime.__dict__.update(launch_enter_hook=None, launch_exit_hook=None)
        runtime.__dict__.update(hooks)
        launch(plan, function, x)
    assert (len(function.run), len(function.compiled.launched)) == (3, 2)  # Triton's own launch calls them


def test_an_error_says_that_it_is_of_a_launch(function):
    x, plan = torch.zeros(8), prepared.Prepared(bare=True)
    launch(plan, function, x)
    function.compiled.error = RuntimeError("too many resources")
    with pytest.raises(RuntimeError, match="too many resources") as caught:
        launch(plan, function, x)
    assert caught.value.stage == "launch"


def test_scratch_is_one_allocation_of_aligned_tensors():
    first, second, third = scratch(torch.zeros(1), 5, 0, 3)
    assert (first.numel() >= 5, second.numel(), third.numel() >= 3) == (True, 0, True)
    assert first.dtype == torch.float32
    assert first.untyped_storage().data_ptr() == third.untyped_storage().data_ptr()
    assert all(tensor.data_ptr() % 16 == 0 for tensor in (first, third))


LAYERS = [
    ("mhc_pre", torch.float32, None),
    ("mhc_pre", torch.bfloat16, "sm_90"),
    ("mhc_head", torch.float32, None),
    ("mhc_head", torch.bfloat16, "sm_90"),
    ("sinkhorn", torch.float32, None),
    ("mhc_post", torch.float32, None),
    ("mhc_post_pre", torch.float32, None),
    ("mhc_post_pre", torch.bfloat16, "sm_90"),
    ("expand", torch.float32, None),
]


@pytest.fixture
def forgotten_plans(monkeypatch):
    """Forget the plans that kernels make for a GPU that is not there: other tests run the same kernels."""
    kernels, plan = [], kernel.Kernel._plan

    def noted(self, *arguments):
        kernels.append(self)
        return plan(self, *arguments)

    monkeypatch.setattr(kernel.Kernel, "_plan", noted)
    yield
    for each in kernels:
        each._plans.clear()


@pytest.mark.usefixtures("forgotten_plans")
@pytest.mark.parametrize(("op", "dtype", "target"), LAYERS)
def test_leading_dimensions_change_no_launch(monkeypatch, op, dtype, target):
    """The tensors come as they are, and only the number of tokens counts; a target chooses another variant."""
    launched = []

    def launch(self, launches, tensors, device):
        assert all(isinstance(each, torch.Tensor) for each in tensors)
        for function, config, grid, values in launches():
            sizes = [each.numel() if isinstance(each, torch.Tensor) else each for each in values]
            launched.append((function.fn.__name__, config, grid, sizes))

    monkeypatch.setattr(kernel, "active_target", lambda *_: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(prepared.Prepared, "launch", launch)
    for direction in ("forward", "backward") if target else ():
        variants = load("triton", "mhc_pre" if op == "mhc_post_pre" else op, direction)  # its part that has variants
        monkeypatch.setattr(variants, "_target_of", lambda device: target)
        monkeypatch.setattr(variants, "_of_device", {})
    records = []
    for lead in ((6,), (2, 3), (1, 6, 1)):
        launched.clear()
        values = arguments(op, dtype, lead)
        results = call(op, *values, backend="triton")
        assert all(result.shape[: len(lead)] == lead for result in results)
        assert all(result._base is None for result in results)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        grads = torch.autograd.grad(results, tensors, [torch.zeros_like(result) for result in results])
        assert [grad.shape for grad in grads] == [tensor.shape for tensor in tensors]
        records.append(list(launched))
    assert records[0]
    assert records[1] == records[0]
    assert records[2] == records[0]


@pytest.mark.parametrize("variant", ["products", "registers", "bf16x3"])
def test_the_launch_before_the_gradients_is_one_program_whatever_is_asked_for(variant):
    """A program without the weights had other bits in the gradients of phi, alpha, bias and gamma, at hidden 203."""
    from mhc.backends.triton.mhc_pre import BACKWARD
    from mhc.ops import mhc_pre

    x = torch.zeros(3, 4, 203, dtype=torch.bfloat16)
    wide = [torch.zeros(size) for size in ((24, 812), (3,), (24,), (4, 203), (3, 24), (3,))]
    grads = torch.zeros(3, 203, dtype=torch.bfloat16), torch.zeros(3, 4), torch.zeros(3, 4, 4)
    first = set()
    for asked in range(1, 32):
        needs = tuple(bool(asked >> place & 1) for place in range(5))
        inputs = mhc_pre.MhcPreBackwardInputs(x, *wide, *grads, needs=needs)
        tiles = BACKWARD[variant].configure(inputs.spec, GPUTarget("cuda", 90, 32))
        function, config, grid, values = BACKWARD[variant].launches(inputs, mhc_pre.empty_grads(inputs), tiles)[0]
        there = tuple(value is not None for value in values)
        first.add((function.fn.__name__, str(config), grid, there))
    assert len(first) == 1
