"""A case that ran on a GPU has the figures of its code, where the backend has the code without compiling it again."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from conforming import described

import kernels
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.kit.conform import record_code
from mhc.backends import Artifact
from mhc.toolchain.cubins import resources

CODE = Artifact("cubin", "sm_90", b"code", {"registers": 40})


class Case:
    """A case whose kernel's process is this one."""

    backend, op, direction, device, target, interpreted = "any", "expand", "forward", "cuda", "sm_90", False
    compile = RunningCase.compile

    def __init__(self):
        self.axes, self.facts, self.artifacts = {"tokens": 3, "streams": 4, "hidden": 8, "dtype": "bf16"}, {}, []

    def call(self, function, arrays=None, **options):
        try:
            return getattr(kernels, function.partition(":")[2])({}, **options)
        except Exception as error:
            raise KernelProcessError(f"{type(error).__name__}: {error}", "", "launch") from None

    def compiled(self, kind, data, figures, name):
        self.artifacts.append((kind, data, figures))


@pytest.fixture
def ran(monkeypatch):
    def ran(kernel):
        monkeypatch.setattr(kernels, "kernel_of", lambda _: kernel)
        case = Case()
        op = described("expand", "forward")
        record_code(case, op)
        return case

    return ran


def refuse(*_):
    raise OSError("no cuobjdump here")


def test_the_code_of_a_run_is_recorded_where_the_backend_has_it(ran):
    asked = []
    kernel = SimpleNamespace(code=lambda spec, target: asked.append((spec.streams, target)) or CODE)
    case = ran(kernel)
    assert case.artifacts == [("cubin", b"code", {"registers": 40})]
    assert asked == [(4, "sm_90")]
    assert case.facts == {}


def test_a_backend_without_the_code_gives_no_figures_and_is_not_asked_to_compile(ran):
    for kernel in (SimpleNamespace(compile=refuse), SimpleNamespace(code=lambda *_: None, compile=refuse)):
        case = ran(kernel)
        assert (case.artifacts, case.facts) == ([], {})


def test_an_error_in_the_figures_is_a_fact_of_the_case_and_no_error(ran):
    case = ran(SimpleNamespace(code=refuse))
    assert (case.artifacts, case.facts) == ([], {"code": "not known: OSError: no cuobjdump here"})


def test_a_cubin_tells_registers_and_shared_memory_and_spills_only_where_it_has_no_stack():
    assert resources(cubin(stack=0)) == {"registers": 40, "stack_bytes": 0, "shared_bytes": 96, "spill_bytes": 0}
    assert resources(cubin(stack=16)) == {"registers": 40, "stack_bytes": 16, "shared_bytes": 96}


def cubin(stack):
    """Return an ELF file with the sections of a cubin that are read."""
    attributes = b"".join(struct.pack("<BBHII", 4, *one) for one in ((0x2F, 8, 0, 40), (0x11, 8, 0, stack)))
    sections = [("", 0, b"", 0), (".nv.info", 1, attributes, len(attributes)), (".nv.shared.kernel", 8, b"", 96)]
    names = b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", 3, names, len(names)))
    body, heads, place = b"", b"", 64
    for name, kind, data, size in sections:
        heads += struct.pack("<IIQQQQIIQQ", names.index(name.encode() + b"\0"), kind, 0, 0, place, size, 0, 0, 0, 0)
        body, place = body + data, place + len(data)
    head = b"\x7fELF\x02".ljust(40, b"\0") + struct.pack("<Q", place) + b"\0" * 10
    return head + struct.pack("<HHH", 64, len(sections), len(sections) - 1) + body + heads
