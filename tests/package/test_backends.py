"""A backend is found and loaded by its name, and an operator is registered."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

import mhc
from mhc import backends
from mhc.library import OPERATORS
from mhc.ops import mhc_pre, sinkhorn

KERNELS = """
class Kernel:
    def run(self, inputs, out, target=None):
        out[0].fill_(7)

KERNELS = {("expand", "forward"): Kernel()}
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Add a backend ``made_up`` that has no table yet, and return the file for its table."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield folder / "operators.py"
    for name in [name for name in sys.modules if name.startswith("mhc.backends.made_up")]:
        del sys.modules[name]
    backends._kernels.cache_clear()


def test_a_folder_with_a_table_is_a_backend(made_up):
    made_up.write_text(KERNELS)
    assert "made_up" in backends.names()
    assert mhc.expand(torch.zeros(2, 3), 2, backend="made_up").eq(7).all()
    with pytest.raises(LookupError, match="backend 'made_up' does not have 'expand' backward"):
        backends.load("made_up", "expand", "backward")


def test_a_failed_import_is_tried_again(made_up):
    made_up.write_text("import a_toolchain_that_nobody_has")
    for _ in range(2):
        with pytest.raises(ImportError, match="a_toolchain_that_nobody_has"):
            mhc.expand(torch.zeros(2, 3), 2, backend="made_up")
    made_up.write_text(KERNELS)
    importlib.invalidate_caches()
    assert mhc.expand(torch.zeros(2, 3), 2, backend="made_up").eq(7).all()


def test_a_loaded_backend_is_found_without_reading_a_folder(monkeypatch):
    kernel = backends.load("reference", "mhc_pre")

    def refuse(*arguments):
        raise AssertionError("load read a folder or imported again")

    monkeypatch.setattr(backends.pkgutil, "iter_modules", refuse)
    monkeypatch.setattr(backends.importlib, "import_module", refuse)
    assert backends.load("reference", "mhc_pre") is kernel
    mhc.expand(torch.zeros(2, 3), 2)


def test_inductor_has_what_the_reference_has():
    reference, inductor = (
        importlib.import_module(f"mhc.backends.{name}.operators") for name in ("reference", "inductor")
    )
    assert set(inductor.KERNELS) == set(reference.KERNELS)
    assert {op for op, _ in reference.KERNELS} == {operator.name for operator in OPERATORS}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_a_schema_names_the_fields_that_kernels_get_in_their_order(operator):
    def names(*declared):
        return tuple(text.split()[-1] for group in declared for text in group)

    assert names(operator.tensors, operator.options) == operator.inputs._fields
    assert len(operator.token_dims) == len(operator.tensors)
    if operator.backward_inputs is None:
        assert not operator.grads
        return
    if operator.keeps_inputs:
        kept = (operator.tensors, operator.saved, operator.grads, operator.options, ("needs",) * operator.needs)
    else:
        kept = (operator.grads,)
    assert names(*kept) == operator.backward_inputs._fields
    saved = {name.split()[-1] for name in operator.saved}
    both = saved & {name.split()[-1].removeprefix("grad_") for name in operator.grads}  # saved, with a gradient
    assert len(operator.result_dims) == len(operator.grads) + len(saved - both)


def test_a_kernel_with_fp32_products_is_compiled_once_for_both_precisions():
    fp32, tf32 = (mhc_pre.MhcPreSpec(4, 8, torch.float32, True, precision=name) for name in ("fp32", "tf32"))
    assert backends.with_fp32_products(tf32) == fp32 == backends.with_fp32_products(fp32)
    logits = sinkhorn.SinkhornSpec(4)
    assert backends.with_fp32_products(logits) is logits
