"""Guards around arrays, poison in scratch, and the state of the process around a kernel, as PyTorch has them."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conforming import described

from kernel_matrix.kit import forbidden, state
from kernel_matrix.kit.frameworks import torch_calls
from kernel_matrix.kit.frameworks.of_torch import FRAMEWORK, TorchScratch
from kernel_matrix.kit.kernel_side import _PERTURB, _perturb
from kernel_matrix.kit.layouts import OTHER, PACKED, laid, opened, pattern, place_of

SHAPES = [(7, 4, 40), (1,), (3, 0, 2), (0,), (), (2, 3000)]
FP32 = np.dtype(np.float32)


def tensor_in(shape, dtype=FP32, layout=PACKED, secret=5):
    """Return guarded memory and the tensor that lies in it, unwritten."""
    place = place_of(shape, np.dtype(dtype), layout)
    memory = FRAMEWORK.memory(laid(place, None, secret), "cpu")
    return place, memory, FRAMEWORK.view(memory, place)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_guarded_tensor_holds_nan_and_is_contiguous(shape, dtype):
    _, memory, tensor = tensor_in(shape, dtype)
    assert (tuple(tensor.shape), tensor.is_contiguous()) == (shape, True)
    assert tensor.isnan().all()
    assert tensor.data_ptr() % 64 == memory.data_ptr() % 64, "a guard keeps the alignment"


@pytest.mark.parametrize("layout", [PACKED, *(one for one in OTHER if one != "reversed")])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_that_are_laid_come_back(shape, layout):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    if layout == "expanded" and values.ndim:
        values = np.ascontiguousarray(np.broadcast_to(values[:1], shape))
    place = place_of(shape, FP32, layout)
    memory = FRAMEWORK.memory(laid(place, values, 5), "cpu")
    assert FRAMEWORK.taken(FRAMEWORK.view(memory, place)).tobytes() == values.tobytes()
    there = opened(FRAMEWORK.bytes_of(memory), place, 5)
    assert (there.guards, there.gaps, there.values.tobytes()) == (True, True, values.tobytes())


@pytest.mark.parametrize("offset", [-1, 0, -4096, 4095], ids=str)
def test_a_byte_that_is_written_outside_is_seen(offset):
    place, memory, tensor = tensor_in((7, 4))
    address = tensor.data_ptr() + offset + (tensor.nbytes if offset >= 0 else 0)
    ctypes.memset(address, ctypes.c_uint8.from_address(address).value ^ 1, 1)
    assert not opened(FRAMEWORK.bytes_of(memory), place, 5).guards


def test_a_byte_that_is_written_inside_is_no_overrun():
    place, memory, tensor = tensor_in((7, 4))
    tensor.zero_()
    assert opened(FRAMEWORK.bytes_of(memory), place, 5).guards


def test_a_guard_is_as_long_as_a_row_and_of_whole_pages():
    guards = [place_of(shape, FP32).guard for shape in [(7, 4), (7, 1025), (7,), (), (7, 0)]]
    assert guards == [4096, 8192, 4096, 4096, 4096]


def test_a_secret_determines_the_guard():
    assert (pattern(64, 5) == pattern(64, 5)).all()
    assert (pattern(64, 5) != pattern(64, 6)).any()
    place, memory, _ = tensor_in((3,))
    assert not opened(FRAMEWORK.bytes_of(memory), place, 6).guards


@pytest.mark.parametrize("size", [0, 8203, 8205])
def test_bytes_of_another_size_are_refused(size):
    with pytest.raises(ValueError, match="bytes came back, where 8204 were handed out"):
        opened(np.zeros(size, np.uint8), place_of((3,), FP32), 5)


ALLOCATIONS = {
    "empty": lambda: torch.empty(3, 4),
    "empty_like": lambda: torch.empty_like(torch.zeros(3, 4)),
    "transposed": lambda: torch.empty_like(torch.zeros(4, 3).T),
    "new_empty": lambda: torch.zeros(1).new_empty(3, 4),
    "empty_strided": lambda: torch.empty_strided((3, 4), (1, 3)),
    "bf16": lambda: torch.empty(3, 4, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("allocate", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_scratch_is_nan_with_guards_around_it(allocate):
    like = allocate()
    with TorchScratch("nan", "cpu") as scratch:
        tensor = allocate()
        assert (tensor.shape, tensor.stride(), tensor.dtype) == (like.shape, like.stride(), like.dtype)
    assert tensor.isnan().all()
    assert scratch.overran() == []
    ctypes.memset(tensor.data_ptr() - 1, ctypes.c_uint8.from_address(tensor.data_ptr() - 1).value ^ 1, 1)
    assert len(scratch.overran()) == 1


def test_scratch_without_elements_stays_as_it_is():
    with TorchScratch("nan", "cpu") as scratch:
        assert torch.empty(0, 4).shape == (0, 4)
        assert torch.empty(()).shape == ()
    assert scratch.overran() == []


def test_operators_that_compute_are_noted_and_those_that_move_are_not(capfd):
    with TorchScratch("nan", "cpu"), torch_calls.noted() as called:
        x = torch.zeros(3, 4).view(4, 3).T.contiguous().clone()
        x.copy_(torch.ones(3, 4)).to(torch.bfloat16).flatten().narrow(0, 1, 2).numel()
        torch.full((3,), 1.0).new_full((4,), 2.0)[1:].unbind()
        torch.from_numpy(x.detach().numpy()).reshape(2, 6).split(1)
    assert called == set()
    with torch_calls.noted() as called:
        x @ x.T
        torch.exp(x)
    assert called == {"mm", "exp"}
    assert capfd.readouterr().err == ""


def test_an_operator_that_fails_ends_what_is_noted():
    with pytest.raises(RuntimeError, match="mat1 and mat2"), torch_calls.noted():
        torch.mm(torch.zeros(2, 3), torch.zeros(2, 3))
    with torch_calls.noted() as called:
        torch.zeros(3).exp()
    assert called == {"exp"}


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only the GNU C library can fill")
@pytest.mark.parametrize("size", [2000, 4 << 20], ids=["8 kB", "16 MiB"])
def test_memory_of_the_c_library_is_far_from_zero(size):
    """Blocks of up to 1 kB come from the thread's own cache, which glibc does not fill."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    _perturb(_PERTURB["nan"])
    try:
        address = library.malloc(ctypes.c_size_t(4 * size))
        values = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address)).copy()
    finally:
        _perturb(0)
    library.free(address)
    assert (values > 1e38).mean() > 0.9, "the first bytes of a block are the C library's own"


CHANGES = {
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the grad mode": lambda: torch.set_grad_enabled(False),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "the precision of fp32 products": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "PyTorch's random numbers": lambda: torch.rand(1),
    "NumPy's random numbers": lambda: np.random.rand(),
    "what NumPy does on errors": lambda: np.seterr(under="raise"),
    "what PyTorch does when it records": lambda: torch.autograd.set_detect_anomaly(True),
    "which algorithms are allowed": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "PyTorch's functions": lambda: setattr(torch, "add", max),
    "NumPy's functions": lambda: setattr(np, "abs", max),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_process_is_named_and_set_back(name):
    before = state.now(FRAMEWORK.state())
    CHANGES[name]()
    changed = {one.partition(" (")[0] for one in state.restore(before, FRAMEWORK.state())}
    with_others = {name, *({"what PyTorch does when it records"} if name == "the default device" else ())}  # by a mode
    assert changed - set(state.FIRST_CALL) == with_others, "a first call may import a module that changes others"
    assert name not in state.restore(before, FRAMEWORK.state())


def test_every_state_that_can_be_set_back_on_a_cpu_is_tried():
    settable = {name for name, (_, set_back) in FRAMEWORK.state().items() if set_back is not None}
    assert CHANGES.keys() == settable - {"the GPU's random numbers"}


def test_the_reference_cannot_be_imported_beside_a_kernel_and_can_for_a_race(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    import mhc.backends.reference.expand

    forbidden.refuse(described("expand", "forward").forbidden)
    try:
        assert "mhc.backends.reference.expand" not in sys.modules
        for _ in range(2):
            with pytest.raises(ImportError, match=r"a kernel may not import mhc\.backends\.reference"):
                __import__("mhc.backends.reference.mhc_post")
            with forbidden.forgotten("test_operators"), forbidden.allowed():
                __import__("mhc.backends.reference.mhc_post")
        import mhc.backends.reference.kernel  # noqa: F401  # it has no equation
    finally:
        forbidden.refuse(())


def test_all_equations_of_the_reference_are_refused():
    import mhc.backends.reference

    names = {name.rpartition(".")[2] for name in described("expand", "forward").forbidden}
    assert {path.stem for path in Path(mhc.backends.reference.__file__).parent.glob("*.py")} == {
        "__init__",
        "kernel",
        *names,
    }


def test_to_watch_scratch_imports_no_compiler():
    """PyTorch puts a function around a mode's function. It imports torch._dynamo at the first operator."""
    assert not hasattr(TorchScratch.__torch_dispatch__, "__wrapped__")
