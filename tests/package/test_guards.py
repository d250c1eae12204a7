"""Guards around tensors, poison in scratch, and the state of the process around a kernel."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest
import torch

import surroundings
from guards import Guarded, Scratch, guard_bytes, opened, pattern
from kernel_matrix.kit.frameworks import torch_calls

CPU = torch.device("cpu")
SHAPES = [(7, 4, 40), (1,), (3, 0, 2), (0,), (), (2, 3000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_guarded_tensor_is_like_the_other_and_holds_nan(shape, dtype):
    like = torch.empty(shape, dtype=dtype)
    tensor = Guarded.empty(like, 5).tensor
    assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == (like.shape, dtype, True)
    assert tensor.isnan().all()
    assert tensor.data_ptr() % 64 == Guarded.empty(like, 5).whole.data_ptr() % 64, "a guard keeps the alignment"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_copy_has_the_values_and_whole_guards(shape):
    values = torch.randn(shape).to(torch.bfloat16)
    data, intact = opened(Guarded.copy_of(values, CPU, 5).bytes(), shape, 2, 5)
    assert intact
    assert data.tobytes() == values.contiguous().view(torch.uint8).numpy().tobytes() if values.dim() else True
    assert data.size == values.numel() * 2


def test_a_copy_of_a_tensor_that_is_not_contiguous_has_its_values():
    values = torch.arange(12.0).reshape(3, 4).T
    data, _ = opened(Guarded.copy_of(values, CPU, 5).bytes(), (4, 3), 4, 5)
    assert data.view(np.float32).reshape(4, 3).tolist() == values.tolist()


@pytest.mark.parametrize("offset", [-1, 0, -4096, 4095], ids=str)
def test_a_byte_that_is_written_outside_is_seen(offset):
    guarded = Guarded.empty(torch.empty(7, 4), 5)
    address = guarded.tensor.data_ptr() + offset + (guarded.tensor.nbytes if offset >= 0 else 0)
    ctypes.memset(address, ctypes.c_uint8.from_address(address).value ^ 1, 1)
    assert not opened(guarded.bytes(), (7, 4), 4, 5)[1]


def test_a_byte_that_is_written_inside_is_no_overrun():
    guarded = Guarded.empty(torch.empty(7, 4), 5)
    guarded.tensor.zero_()
    assert opened(guarded.bytes(), (7, 4), 4, 5)[1]


def test_a_guard_is_as_long_as_a_token_and_of_whole_pages():
    assert [guard_bytes(shape, 4) for shape in [(7, 4), (7, 1025), (7,), (), (7, 0)]] == [4096, 8192, 4096, 4096, 4096]


def test_a_secret_determines_the_guard():
    assert (pattern(64, 5) == pattern(64, 5)).all()
    assert (pattern(64, 5) != pattern(64, 6)).any()
    assert not opened(Guarded.empty(torch.empty(3), 5).bytes(), (3,), 4, 6)[1]


@pytest.mark.parametrize("size", [0, 8203, 8205])
def test_bytes_of_another_size_are_refused(size):
    with pytest.raises(ValueError, match="bytes came back, where 8204 were handed out"):
        opened(np.zeros(size, np.uint8), (3,), 4, 5)


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
    with Scratch(CPU, own_operators=False) as scratch:
        tensor = allocate()
        assert (tensor.shape, tensor.stride(), tensor.dtype) == (like.shape, like.stride(), like.dtype)
    assert tensor.isnan().all()
    assert scratch.overrun() == []
    ctypes.memset(tensor.data_ptr() - 1, ctypes.c_uint8.from_address(tensor.data_ptr() - 1).value ^ 1, 1)
    assert len(scratch.overrun()) == 1


def test_scratch_without_elements_stays_as_it_is():
    with Scratch(CPU, own_operators=False) as scratch:
        assert torch.empty(0, 4).shape == (0, 4)
        assert torch.empty(()).shape == ()
    assert scratch.overrun() == []


def test_operators_that_compute_are_noted_and_those_that_move_are_not(capfd):
    with Scratch(CPU, own_operators=False), torch_calls.noted() as called:
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
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("size", [2000, 4 << 20], ids=["8 kB", "16 MiB"])
def test_memory_of_the_c_library_is_far_from_zero(own, size):
    """Blocks of up to 1 kB come from the thread's own cache, which glibc does not fill."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    with Scratch(CPU, own_operators=own):
        address = library.malloc(ctypes.c_size_t(4 * size))
        values = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address)).copy()
    library.free(address)
    assert (values > 1e38).mean() > 0.9, "the first bytes of a block are the C library's own"


CHANGES = {
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the grad mode": lambda: torch.set_grad_enabled(False),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "the precision of fp32 products": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "flushing of subnormals": lambda: torch.set_flush_denormal(True),
    "PyTorch's random numbers": lambda: torch.rand(1),
    "NumPy's random numbers": lambda: np.random.rand(),
    "what NumPy does on errors": lambda: np.seterr(under="raise"),
    "Python's random numbers": lambda: __import__("random").random(),
    "the working directory": lambda: __import__("os").chdir("/"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_process_is_named_and_set_back(name):
    before = surroundings.of_process()
    CHANGES[name]()
    assert surroundings.restore(before) == [name]
    assert surroundings.restore(before) == []


def test_every_state_of_the_process_is_tried():
    assert CHANGES.keys() == surroundings._STATE.keys()


def test_the_reference_cannot_be_imported_beside_a_kernel_and_can_for_a_race(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    import mhc.backends.reference.expand
    from mhc.backends import load

    surroundings.forbid_reference()
    assert "mhc.backends.reference.expand" not in sys.modules
    for refused in (lambda: load("reference", "expand"), lambda: __import__("mhc.backends.reference.mhc_post")):
        with pytest.raises(ImportError, match=r"a kernel may not import mhc\.backends\.reference"):
            refused()
    with surroundings.reference_allowed():
        load("reference", "expand")
    surroundings.forget_reference(False)
    with pytest.raises(ImportError):
        load("reference", "expand")
    import mhc.backends.reference.kernel  # noqa: F401  # it has no equation


def test_to_watch_scratch_imports_no_compiler():
    """PyTorch puts a function around a mode's function. It imports torch._dynamo at the first operator."""
    assert not hasattr(Scratch.__torch_dispatch__, "__wrapped__")
