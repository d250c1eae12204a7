"""The variants of ``cpp`` for sm_90: where they are chosen, what nvcc makes of them, how they are launched."""

from __future__ import annotations

import ctypes
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mhc.backends import NotSupportedError, load
from mhc.backends.cpp import devices, hopper, sinkhorn
from mhc.backends.cpp import kernel as cpp_kernel
from mhc.backends.cpp.arguments import Arguments
from mhc.backends.cpp.mhc_post import columns
from mhc.backends.cpp.mhc_pre import one_read, resident
from mhc.ops import mhc_post
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostInputs, MhcPostSpec
from mhc.ops.mhc_pre import (
    MhcPreAddingInputs,
    MhcPreBackwardInputs,
    MhcPreInputs,
    MhcPreSpec,
    empty_grads,
    empty_outputs,
)
from mhc.ops.sinkhorn import SinkhornInputs, SinkhornOutputs
from mhc.toolchain.compilers import find_nvcc

FITTING = (128, 256, 512, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 4096, 4608, 5120, 5632, 6144, 6656, 7168)
FITTING_HEAD = (*FITTING, 7680)


def spec(hidden: int, dtype: torch.dtype = torch.bfloat16, streams: int = 4) -> MhcPreSpec:
    return MhcPreSpec(streams, hidden, dtype, True)


def head_spec(hidden: int) -> MhcHeadSpec:
    return MhcHeadSpec(4, hidden, torch.bfloat16, True)


@pytest.fixture
def nvcc() -> str:
    try:
        return find_nvcc()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_it_is_chosen_where_it_runs_and_the_plain_one_elsewhere() -> None:
    kernel: Any = load("cpp", "mhc_pre")
    assert {kernel.choose(spec(hidden), "sm_90") for hidden in FITTING} == {"resident"}
    others = [(spec(200), "sm_90"), (spec(7680), "sm_90"), (spec(512), "sm_100"), (spec(512), "gfx942")]
    others += [(spec(512), None), (spec(512, torch.float32), "sm_90"), (spec(512, streams=3), "sm_90")]
    assert {kernel.choose(*other) for other in others} == {"plain"}
    head: Any = load("cpp", "mhc_head")
    assert {head.choose(head_spec(hidden), "sm_90") for hidden in FITTING_HEAD} == {"resident"}


@pytest.mark.parametrize(
    ("wanted", "target", "reason"),
    [
        (spec(512), "sm_100", "for NVIDIA's sm_90"),
        (spec(512, torch.float16), "sm_90", "x is float16"),
        (spec(512, streams=8), "sm_90", "there are 8 streams"),
        (spec(7680), "sm_90", "hidden is 7680"),
        (spec(16), "sm_90", "hidden is 16:"),
    ],
)
def test_what_it_does_not_run_has_a_reason(wanted: MhcPreSpec, target: str, reason: str) -> None:
    variant = load("cpp", "mhc_pre").variants["resident"]  # type: ignore[attr-defined]
    assert reason in variant.supports(wanted, target)
    with pytest.raises(NotSupportedError, match=reason) as caught:
        variant.compile(wanted, target)
    assert caught.value.stage == "lower"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wanted", "threads"),
    [
        (spec(2560), 640),
        (spec(7168), 512),
        (head_spec(7168), 640),
        pytest.param(spec(256), 640, marks=pytest.mark.nightly),
        pytest.param(spec(1024), 640, marks=pytest.mark.nightly),
        pytest.param(spec(2048), 512, marks=pytest.mark.nightly),
        pytest.param(head_spec(1024), 640, marks=pytest.mark.nightly),
        pytest.param(spec(4096), 512, marks=pytest.mark.nightly),
        pytest.param(spec(5120), 512, marks=pytest.mark.nightly),
        pytest.param(head_spec(2560), 640, marks=pytest.mark.nightly),
    ],
)
def test_nvcc_compiles_it_without_spills_and_agrees_on_its_shared_memory(
    nvcc: str, wanted: MhcPreSpec, threads: int
) -> None:
    op = "mhc_head" if isinstance(wanted, MhcHeadSpec) else "mhc_pre"
    made = load("cpp", op).compile(wanted, "sm_90")  # type: ignore[attr-defined]
    assert made.kind == "cubin"
    assert made.resources["spill_bytes"] == made.resources["stack_bytes"] == 0
    assert made.resources["threads"] == threads


@pytest.mark.parametrize(("mixes", "fitting"), [(24, FITTING), (4, FITTING_HEAD)])
def test_it_fits_into_a_multiprocessor(mixes: int, fitting: tuple[int, ...]) -> None:
    cuts = [cut for hidden in fitting if (cut := resident._cut(hidden, mixes))]
    assert len(cuts) == len(fitting)
    assert max(cut.shared_bytes(mixes) for cut in cuts) <= 227 << 10
    assert max(cut.box_columns for cut in cuts) <= 256  # the most that a copy brings
    assert all(cut.columns % (cut.box_columns - 8) == 0 for cut in cuts)
    assert all(cut.phi_bytes(mixes) <= cut.front_bytes(mixes) for cut in cuts)  # phi lies where x comes later


class Driver:
    """CUDA's driver, which notes what it is told."""

    def __init__(self, refused: str = "") -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.refused = refused

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            return 1 if name == self.refused else 0

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    stand_in = Driver()
    monkeypatch.setattr(devices.torch.version, "hip", None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: stand_in)
    properties = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(hopper.torch.cuda, "get_device_properties", lambda device: properties)
    hopper._map.cache_clear()
    yield stand_in
    hopper._map.cache_clear()


def asked_of(driver: Driver, launch: devices.Launch) -> dict[int, int]:
    """Return the attributes that a launch's kernel gets from the driver when it is loaded."""
    devices._Driver().function(ctypes.c_void_p(1), launch)
    return {arguments[1]: arguments[2] for name, arguments in driver.calls if name == "cuFuncSetAttribute"}


def inputs_of(tokens: int, hidden: int) -> MhcPreInputs:
    x = torch.zeros(tokens, 4, hidden, dtype=torch.bfloat16)
    return MhcPreInputs(x, torch.zeros(24, 4 * hidden), torch.zeros(3), torch.zeros(24), None)


@pytest.mark.parametrize(("tokens", "blocks"), [(1, 8), (33, 24), (1000, 112)])
def test_the_launch_is_of_clusters_that_share_the_tokens(driver: Driver, tokens: int, blocks: int) -> None:
    inputs = inputs_of(tokens, 1280)
    cut = resident._Cut(8, 16, 160, 80, 5, 9, None)
    assert resident._cut(1280, 24) == cut
    launch = resident._launch(inputs, empty_outputs(inputs), cut)
    assert launch.grid == (blocks, 1, 1)
    assert launch.shape == hopper.Shape(640, cut.shared_bytes(24), 8, early=True)
    problem = launch.arguments[1]
    assert (problem.tokens, problem.phi, problem.gamma) == (tokens, inputs.phi.data_ptr(), None)

    assert asked_of(driver, launch) == {8: launch.shape.shared_bytes, 14: 1}  # shared memory, and large clusters
    devices._Driver().launcher(ctypes.c_void_p(1), launch)(5, None)
    config = dict(driver.calls)["cuLaunchKernelEx"][0]._obj
    assert (list(config.grid), list(config.block)) == ([blocks, 1, 1], [640, 1, 1])
    told_to_launch = {config.attributes[k].id: list(config.attributes[k].value[:3]) for k in range(config.count)}
    assert told_to_launch == {4: [8, 1, 1], 6: [1, 0, 0]}  # a cluster of 8 blocks, and an early launch


def test_what_a_launch_says_beside_its_arguments_is_made_once_for_a_stream(driver: Driver) -> None:
    launch = devices.Launch("kernel", (7, 1, 1), (), hopper.Shape(128, 0, 1, early=True))
    start = devices._Driver().launcher(ctypes.c_void_p(1), launch)
    for stream in (5, 6, 5):
        start(stream, None)
    configs = [arguments[0]._obj for name, arguments in driver.calls if name == "cuLaunchKernelEx"]
    assert [config.stream for config in configs] == [5, 6, 5]
    assert configs[0] is configs[2]
    assert list(configs[0].grid) == [7, 1, 1]


def test_a_map_is_made_once_and_its_refusal_is_said(driver: Driver) -> None:
    x = inputs_of(3, 512).x
    for _ in range(2):
        hopper.streams_map(x, 32, 40)
    assert [name for name, _ in driver.calls] == ["cuTensorMapEncodeTiled"]
    sizes, strides, box = (list(values) for values in driver.calls[0][1][4:7])
    assert (sizes, strides, box) == ([512, 4, 3], [1024, 4096], [40, 1, 32])
    driver.refused = "cuTensorMapEncodeTiled"
    with pytest.raises(RuntimeError, match="cannot make a tensor map of x: 1"):
        hopper.streams_map(x, 16, 40)


def read_back(launch: devices.Launch, recorded: list[int], addresses: list[int]) -> tuple[bool, list[Any]]:
    """Return whether all addresses are known, and the arguments of a recorded launch with other addresses."""
    arguments = Arguments(launch.arguments, recorded)
    memory = arguments.take(addresses)
    types = [type(each) if isinstance(each, ctypes.Structure) else ctypes.c_void_p for each in launch.arguments]
    read = [
        type_.from_buffer_copy(ctypes.string_at(place, ctypes.sizeof(type_)))
        for type_, place in zip(types, memory.pointers, strict=True)
    ]
    return arguments.known, read


def test_a_recorded_launch_gets_other_addresses_and_its_map_is_made_anew(driver: Driver) -> None:
    inputs, cut = inputs_of(3, 1280), resident._cut(1280, 24)
    assert cut is not None
    out = empty_outputs(inputs)
    launch = resident._launch(inputs, out, cut)
    recorded = devices.addresses_of((*inputs, *out))
    other = inputs_of(3, 1280)
    another = empty_outputs(other)
    assert not {*recorded} & {*devices.addresses_of((*other, *another))}
    known, (_, problem) = read_back(launch, recorded, devices.addresses_of((*other, *another)))
    expected = resident._launch(other, another, cut).arguments[1]
    assert known
    assert bytes(problem) == bytes(expected) != bytes(launch.arguments[1])
    mapped = [call[1][3].value for call in driver.calls if call[0] == "cuTensorMapEncodeTiled"]
    assert mapped == [inputs.x.data_ptr(), other.x.data_ptr()]


def test_what_the_caller_did_not_hand_over_or_handed_over_twice_is_no_launch_to_keep() -> None:
    x, y = torch.zeros(8), torch.zeros(8)
    launch = devices.Launch("kernel", (1, 1, 1), (x, y, None, devices.I32(7)))
    addresses = devices.addresses_of((x, y))
    assert read_back(launch, addresses, [16, 32])[0]
    assert [each.value for each in read_back(launch, addresses, [16, 32])[1][:3]] == [16, 32, None]
    assert not read_back(launch, [x.data_ptr()], [16])[0]
    assert not read_back(launch, [*addresses, x.data_ptr()], [16, 32, 48])[0]


def test_two_threads_have_memory_of_their_own(driver: Driver) -> None:
    """The driver copies the arguments while other threads run."""
    x = torch.zeros(8)
    arguments = Arguments((x,), [x.data_ptr()])
    first, second = arguments.take([16]), arguments.take([32])
    assert [ctypes.c_void_p.from_address(each.pointers[0]).value for each in (first, second)] == [16, 32]
    arguments.give_back(first)
    assert arguments.take([48]) is first


def test_a_call_of_the_same_kind_makes_no_launches(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_driver", devices._Driver)
    monkeypatch.setattr(devices._Driver, "enter", lambda self, device: None)
    monkeypatch.setattr(devices, "_module", lambda *of: devices._Module(b""))
    monkeypatch.setattr(devices.torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)

    def issued(inputs: Any) -> devices.Call | None:
        out = mhc_post.empty_grads(inputs)
        launches = [columns._backward(inputs, out)]
        return devices._issued(lambda: (None, launches), 0, devices.addresses_of((*inputs, *out)), "sm_90")  # type: ignore[arg-type, return-value]

    call = issued(written_back(3, 512))
    assert call is not None
    assert call.launch([16 * place for place in range(1, 10)])
    assert not call.launch([16 * place + 2 for place in range(1, 10)])
    twice = written_back(3, 512)
    assert issued(twice._replace(x=twice.grad_out)) is None
    shifted = torch.zeros(3 * 512 + 1, dtype=torch.bfloat16)[1:].view(3, 512)
    assert issued(twice._replace(y=shifted)) is None
    assert [name for name, _ in driver.calls].count("cuLaunchKernelEx") == 4
    x = torch.zeros(8)
    alive, kept = weakref.ref(x), devices.Launch("kernel", (1, 1, 1), (x,), hopper.Shape(128, 0, 1))
    call = devices.Call(devices._Module(b""), [kept], [x.data_ptr()], 0)
    del x, kept
    assert call.known
    assert alive() is None, "a recorded call keeps a tensor"


def test_tensors_that_are_not_aligned_get_the_plain_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    plain: Any = SimpleNamespace(run=lambda *arguments: taken.append("plain"))
    monkeypatch.setattr(cpp_kernel, "issue", lambda *arguments: taken.append("resident"))
    monkeypatch.setattr(resident, "_launch", lambda inputs, out, cut: None)
    inputs = inputs_of(2, 512)
    shifted = inputs._replace(x=torch.zeros(2 * 4 * 512 + 1, dtype=torch.bfloat16)[1:].view(2, 4, 512))
    for one in (inputs, shifted):
        resident.Resident(plain).run(one, empty_outputs(one))
    assert taken == ["resident", "plain"]


def written(tokens: int, hidden: int) -> MhcPostInputs:
    shapes = ((tokens, 4, hidden), (tokens, hidden)), ((tokens, 4), (tokens, 4, 4))
    halves, coefficients = (
        [torch.zeros(shape, dtype=dtype) for shape in each]
        for each, dtype in zip(shapes, (torch.bfloat16, torch.float32), strict=True)
    )
    return MhcPostInputs(*halves, *coefficients)


def written_back(tokens: int, hidden: int) -> MhcPostBackwardInputs:
    inputs = written(tokens, hidden)
    return MhcPostBackwardInputs(*inputs, torch.zeros_like(inputs.x))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_columns_are_chosen_where_they_run_and_the_plain_one_elsewhere(direction: str) -> None:
    kernel: Any = load("cpp", "mhc_post", direction)
    here = MhcPostSpec(4, 1280, torch.bfloat16)
    assert kernel.choose(here, "sm_90") == "columns"
    others = [(MhcPostSpec(4, 1280, torch.float16), "sm_90"), (MhcPostSpec(3, 1280, torch.bfloat16), "sm_90")]
    others += [(MhcPostSpec(4, 1281, torch.bfloat16), "sm_90"), (here, "sm_100"), (here, "gfx942"), (here, None)]
    assert {kernel.choose(*other) for other in others} == {"plain"}
    reasons = [kernel.variants["columns"].supports(*other) for other in others]
    assert [reason.split()[0] for reason in reasons] == ["x", "there", "hidden", "it", "it", "it"]
    with pytest.raises(NotSupportedError, match="hidden is 1281") as caught:
        kernel.variants["columns"].compile(others[2][0], "sm_90")
    assert caught.value.stage == "lower"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("direction", "hidden", "threads"),
    [
        ("forward", 200, 128),
        ("backward", 7168, 224),
        pytest.param("backward", 200, 32, marks=pytest.mark.nightly),
        pytest.param("backward", 2560, 160, marks=pytest.mark.nightly),
    ],
)
def test_nvcc_compiles_columns_without_spills(nvcc: str, direction: str, hidden: int, threads: int) -> None:
    kernel: Any = load("cpp", "mhc_post", direction)
    made = kernel.compile(MhcPostSpec(4, hidden, torch.bfloat16), "sm_90")
    kept = made.resources["spill_bytes"], made.resources["stack_bytes"]
    assert (made.kind, kept, made.resources["threads"]) == ("cubin", (0, 0), threads)


@pytest.mark.parametrize(("tokens", "blocks"), [(1, 2), (33, 42)])
def test_columns_are_launched_early_and_a_thread_has_eight_of_them(driver: Driver, tokens: int, blocks: int) -> None:
    inputs = written(tokens, 1280)
    launch = columns._forward(inputs, mhc_post.empty_outputs(inputs))
    assert (launch.grid, launch.arguments[-1].value) == ((blocks, 1, 1), tokens * 160)
    assert asked_of(driver, launch) == {8: 0, 14: 1, 9: 0}  # no shared memory, and all that can be as L1 cache
    devices._Driver().launcher(ctypes.c_void_p(1), launch)(5, None)
    config = dict(driver.calls)["cuLaunchKernelEx"][0]._obj
    assert (list(config.grid), list(config.block), config.shared_bytes) == ([blocks, 1, 1], [128, 1, 1], 0)
    told = {config.attributes[k].id: config.attributes[k].value[0] for k in range(config.count)}
    assert told == {4: 1, 6: 1}  # a cluster of one block, and an early launch


def test_the_backward_of_columns_gets_no_address_for_a_gradient_that_is_not_asked_for(driver: Driver) -> None:
    inputs = written_back(3, 4096)
    some = (True, False, True, False), "mhc_post_columns_backward_some"
    for needs, kernel in (((True,) * 4, "mhc_post_columns_backward"), some):
        out = mhc_post.empty_grads(inputs._replace(needs=needs))
        launch = columns._backward(inputs._replace(needs=needs), out)
        assert (launch.kernel, launch.grid) == (kernel, (3, 1, 1))
        assert launch.shape == hopper.Shape(256, 0, 1, early=True, shared_percent=0)
        [gradients] = launch.arguments
        addresses = [getattr(gradients, f"grad_{name}") for name in out._fields]
        assert addresses == [None if grad is None else grad.data_ptr() for grad in out]
        assert gradients.grad_out == inputs.grad_out.data_ptr()


@pytest.mark.parametrize(
    ("device", "hip", "capability", "early"),
    [
        ("cpu", None, (9, 0), False),
        ("cuda", "6.4", (9, 4), False),
        ("cuda", None, (8, 9), False),
        ("cuda", None, (9, 0), True),
        ("cuda", None, (12, 0), True),
    ],
)
def test_sinkhorn_is_launched_early_where_the_device_can(
    monkeypatch: pytest.MonkeyPatch,
    driver: Driver,
    device: str,
    hip: str | None,
    capability: tuple[int, int],
    early: bool,
) -> None:
    monkeypatch.setattr(hopper.torch.version, "hip", hip)
    monkeypatch.setattr(hopper.torch.cuda, "get_device_capability", lambda device: capability)
    hopper.launches_early.cache_clear()
    assert hopper.launches_early(torch.device(device)) is early
    hopper.launches_early.cache_clear()
    monkeypatch.setattr(sinkhorn, "launches_early", lambda device: early)
    inputs = SinkhornInputs(torch.zeros(33, 4, 4))
    [launch] = sinkhorn._forward(inputs, SinkhornOutputs(torch.empty(33, 4, 4)))
    assert launch.shape == (hopper.Shape(128, 0, 1, early=True, shared_percent=100) if early else None)
    if early:  # mhc_pre, which needs nearly all of a multiprocessor as shared memory, can begin at the same time
        assert asked_of(driver, launch) == {8: 0, 14: 1, 9: 100}


def test_the_threads_of_a_block_of_the_backward_share_its_pieces_out_evenly() -> None:
    turns = {hidden: -(-hidden // 8 // columns._threads(hidden)) for hidden in range(8, 8200, 8)}
    assert all(32 <= columns._threads(hidden) <= 256 and columns._threads(hidden) % 32 == 0 for hidden in turns)
    assert all(turns[hidden] == -(-hidden // 8 // 256) for hidden in turns)


def test_rows_that_are_not_aligned_get_the_plain_kernel_and_others_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    plain: Any = SimpleNamespace(run=lambda *arguments: taken.append("plain"))
    monkeypatch.setattr(cpp_kernel, "issue", lambda made, *arguments: taken.append(made() and "columns"))
    inputs = written(2, 512)
    shifted = inputs._replace(y=torch.zeros(2 * 512 + 1, dtype=torch.bfloat16)[1:].view(2, 512))
    back = written_back(2, 512)
    for one in (inputs, shifted):
        columns.forward(plain).run(one, mhc_post.empty_outputs(one))
    some = back._replace(needs=(True, False, True, False))
    for one in (some, some._replace(y=shifted.y)):
        columns.backward(plain).run(one, mhc_post.empty_grads(one))
    assert taken == ["columns", "plain"] * 2
    odd = written(2, 510)
    with pytest.raises(NotSupportedError, match="hidden is 510"):
        columns.forward(plain).run(odd, mhc_post.empty_outputs(odd))


def test_one_read_is_chosen_at_its_widths_and_the_plain_backward_elsewhere() -> None:
    kernel: Any = load("cpp", "mhc_pre", "backward")
    assert [kernel.choose(spec(hidden), "sm_90") for hidden in one_read._CUTS] == ["one_read"] * 5
    others = [(spec(7168), "sm_90"), (spec(4096, torch.float16), "sm_90"), (spec(4096, streams=3), "sm_90")]
    others += [(spec(4096), "sm_100"), (spec(4096), None)]
    assert {kernel.choose(*other) for other in others} == {"plain"}
    reasons = [kernel.variants["one_read"].supports(*other) for other in others]
    assert [reason.split()[0] for reason in reasons] == ["hidden", "x", "there", "it", "it"]
    assert "for mhc_pre" in kernel.variants["one_read"].supports(head_spec(4096), "sm_90")
    with pytest.raises(NotSupportedError, match="hidden is 7168"):
        kernel.variants["one_read"].compile(spec(7168), "sm_90")


@pytest.mark.parametrize(
    ("hidden", "threads", "registers"),
    [
        (1024, 512, 128),
        (2560, 640, 96),
        pytest.param(1280, 640, 96, marks=pytest.mark.nightly),
        pytest.param(2048, 512, 128, marks=pytest.mark.nightly),
        pytest.param(4096, 512, 128, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("adds", [False, True])
def test_nvcc_compiles_one_read_without_spills(
    nvcc: str, hidden: int, threads: int, registers: int, adds: bool
) -> None:
    made = one_read.OneRead(SimpleNamespace(adds_to_first=adds)).compile(spec(hidden), "sm_90")  # type: ignore[arg-type]
    kept = made.resources["spill_bytes"], made.resources["stack_bytes"]
    assert (made.kind, kept, made.resources["threads"]) == ("cubin", (0, 0), threads)
    assert made.resources["registers"] <= registers  # so many threads of a block have no more


def read_back_inputs(tokens: int, gamma: bool = False, hidden: int = 4096) -> MhcPreBackwardInputs:
    forward = inputs_of(tokens, hidden)._replace(gamma=torch.zeros(4, hidden) if gamma else None)
    out = empty_outputs(forward)
    return MhcPreBackwardInputs(*forward[:5], out.m, out.r, out.h_in, out.h_post, out.h_res)


@pytest.mark.parametrize(("tokens", "clusters"), [(1, 1), (33, 3), (1000, 7)])
def test_one_read_is_launched_in_clusters_and_their_sums_behind_it(driver: Driver, tokens: int, clusters: int) -> None:
    inputs = read_back_inputs(tokens, gamma=True)
    out, sums = empty_grads(inputs), one_read._room(inputs)()
    first, last = one_read._launches(inputs, out, None, sums)
    assert (first.grid, last.grid) == (
        (16 * clusters, 1, 1),
        (512 + 5, 1, 1),
    )  # six gradients of alpha and bias in a block
    assert first.shape == hopper.Shape(512, 232448, 16, early=True)
    assert sums.numel() == clusters * (24 * 4 * 4096 + 16 * 24 * 2 * 2)
    problem = first.arguments[-1]
    assert (problem.tokens, problem.stores_x, problem.gamma) == (tokens, 1, inputs.gamma.data_ptr())  # type: ignore[union-attr]
    assert problem.chunks == last.arguments[0].data_ptr() == sums.data_ptr()
    mapped = [call[1] for call in driver.calls if call[0] == "cuTensorMapEncodeTiled"]
    assert [call[3].value for call in mapped] == [each.data_ptr() for each in (inputs.x, inputs.grad_h_in, out.x)]  # type: ignore[union-attr]
    assert [list(call[4]) for call in mapped] == [[4096, streams, tokens] for streams in (4, 1, 4)]
    assert {(*call[6], call[9]) for call in mapped} == {(64, 1, 16, 3)}  # a box, and pieces that are swapped


def test_one_read_has_boxes_of_half_the_columns_at_hidden_2560(driver: Driver) -> None:
    inputs = read_back_inputs(33, hidden=2560)
    first, last = one_read._launches(inputs, empty_grads(inputs), None, one_read._room(inputs)())
    assert (first.grid, last.grid) == ((48, 1, 1), (320 + 5, 1, 1))
    assert first.shape == hopper.Shape(640, 232448, 16, early=True)
    mapped = [call[1] for call in driver.calls if call[0] == "cuTensorMapEncodeTiled"]
    assert {(*call[6], call[9]) for call in mapped} == {(32, 1, 16, 2)}


@pytest.mark.parametrize(("hidden", "blocks", "clusters"), [(1024, 4, 28), (1280, 8, 14), (2048, 8, 14), (2560, 16, 7)])
def test_one_read_has_smaller_clusters_in_a_narrow_layer(
    driver: Driver, hidden: int, blocks: int, clusters: int
) -> None:
    inputs = read_back_inputs(1000, hidden=hidden)
    sums = one_read._room(inputs)()
    first, _ = one_read._launches(inputs, empty_grads(inputs), None, sums)
    assert (first.grid, first.shape.cluster) == ((blocks * clusters, 1, 1), blocks)  # type: ignore[union-attr]
    assert dict(one_read._source(hidden, False).constants)["BLOCKS"] == blocks
    assert sums.numel() == clusters * (24 * 4 * hidden + blocks * 24 * 2 * 2)


def test_one_read_gets_no_address_for_a_gradient_that_is_not_asked_for(driver: Driver) -> None:
    inputs = read_back_inputs(3)
    alone = inputs._replace(needs=(True, False, False, False, False))
    [launch] = one_read._launches(alone, empty_grads(alone), None, one_read._room(alone)())
    assert launch.arguments[-1].stores_x == 1
    others = inputs._replace(needs=(False, True, False, True, False))
    out = empty_grads(others)
    first, last = one_read._launches(others, out, None, one_read._room(others)())
    assert first.arguments[-1].stores_x == 0
    assert last.arguments[3:7] == (out.phi, None, None, out.bias)


def test_one_read_adds_where_the_other_kernel_does(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(one_read, "issue", lambda made, device, addresses, target: taken.append((made(), addresses)))
    other: Any = SimpleNamespace(run=lambda *arguments: taken.append("other"), adds_to_first=True)
    kernel = one_read.OneRead(other)
    assert kernel.adds_to_first
    inputs = read_back_inputs(3)
    added = torch.zeros_like(inputs.x)
    for overwritten in (False, True):
        adding = MhcPreAddingInputs.of(inputs, added, overwritten=overwritten)
        kernel.run(adding, empty_grads(adding))
    for (source, launches), addresses in taken:
        assert dict(source.constants)["ADDING"] == 1
        assert launches[0].arguments[3].address == added.data_ptr()
        assert addresses.count(added.data_ptr()) == 1
    shifted = torch.zeros(3 * 4096 + 1, dtype=torch.bfloat16)[1:].view(3, 4096)
    kernel.run(inputs._replace(grad_h_in=shifted), empty_grads(inputs))
    assert taken[2] == "other"


def test_one_read_is_recorded_with_new_memory_for_its_sums(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr(one_read, "issue", lambda made, device, addresses, target: record(made()[1], addresses))
    launched: list[list[int]] = []

    def record(launches: list[devices.Launch], addresses: list[int]) -> Any:
        assert all(Arguments(launch.arguments, addresses).known for launch in launches)
        return SimpleNamespace(launch=lambda given: bool(launched.append(given)) or True)

    inputs = read_back_inputs(33)
    again: Any = one_read.OneRead(SimpleNamespace()).run(inputs, empty_grads(inputs))  # type: ignore[arg-type]
    assert again.launch([16, 32])
    assert launched[0][:2] == [16, 32]
    assert len(launched[0]) == 3
    assert again.room().numel() == one_read._room(inputs)().numel()
