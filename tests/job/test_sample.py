"""A sample has the same positions on every machine, reaches the edges of blocks, and stays small."""

from __future__ import annotations

import base64
import hashlib
import math
from statistics import mean

import ml_dtypes
import numpy as np
import pytest
from common import ROOT

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.job.inputs import DTYPES
from kernel_matrix.job.sample import MOST, positions, take

KEY = "mhc_pre.forward/tokens1000-seed0"
MOST_BYTES = 2_000  # of a case, on average over the quick tier
_BLOCKS = (16, 32, 64, 128, 256, 512, 1024)


def test_the_positions_are_those_of_any_other_machine():
    chosen = positions(KEY, "h_in", (1000, 512))
    assert hashlib.sha256(chosen.astype("<i8").tobytes()).hexdigest()[:16] == "06fbc51af7c8db2c"


@pytest.mark.parametrize("shape", [(1000, 512), (7, 200), (128, 4, 4), (130,), (129,), (1, 24, 5120), (3, 1)])
def test_positions_are_ascending_distinct_inside_and_few(shape):
    chosen = positions(KEY, "h_in", shape)
    assert len(chosen) == min(MOST, math.prod(shape))
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] == 0
    assert chosen[-1] == math.prod(shape) - 1


def test_positions_reach_both_sides_of_blocks_in_the_flat_output_its_columns_and_its_rows():
    rows, columns = 1300, 1500
    chosen = set(positions(KEY, "h_in", (rows, columns)).tolist())
    edges = {place for block in _BLOCKS for place in (block - 1, block, block + 1)}
    assert edges <= chosen
    assert edges <= {place % columns for place in chosen if place > 1025}
    assert edges <= {place // columns for place in chosen}


def test_a_small_output_is_taken_whole_and_an_empty_one_has_no_positions():
    assert positions(KEY, "r", (2, 64)).tolist() == list(range(128))
    assert positions(KEY, "r", ()).tolist() == [0]
    assert positions(KEY, "r", (0, 4)).tolist() == []


def test_another_case_or_output_has_other_positions_and_another_variant_the_same():
    shape = (1000, 512)
    chosen = positions(KEY, "h_in", shape).tolist()
    assert chosen == positions(KEY, "h_in@tensor_cores", shape).tolist()
    assert chosen != positions(KEY, "h_res", shape).tolist()
    assert chosen != positions(f"{KEY}1", "h_in", shape).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sample_holds_the_bits_at_the_positions_and_the_digest_of_all_bytes(dtype):
    array = np.arange(6000).reshape(20, 300).astype(DTYPES[dtype])
    sample = take(KEY, "h_in", array)
    values = np.frombuffer(base64.b64decode(sample["bits"]), DTYPES[dtype])
    assert sample | {"bits": ""} == {
        "dtype": dtype,
        "shape": [20, 300],
        "sha256": hashlib.sha256(array.tobytes()).hexdigest()[:16],
        "bits": "",
    }
    assert np.array_equal(values, array.reshape(-1)[positions(KEY, "h_in", (20, 300))])


def test_the_bits_of_nan_of_negative_zero_and_of_a_transposed_output_are_kept():
    array = np.array([[-0.0, np.nan, 1.0], [2.0, np.inf, -3.0]], ml_dtypes.bfloat16)
    bits = base64.b64decode(take(KEY, "h_in", array.T)["bits"])
    assert bits == np.ascontiguousarray(array.T).tobytes()


def test_another_dtype_is_refused():
    with pytest.raises(ValueError, match=r"h_in: the dtype int32 is not known; known are fp64, fp32, fp16, bf16"):
        take(KEY, "h_in", np.zeros(3, np.int32))


def shapes(op, direction, axes):
    """Return the shape and the size of an element of each output of a case, as src/mhc/ops makes them."""
    t, n = axes["tokens"], axes["streams"]
    hidden, narrow = axes.get("hidden", 0), DTYPES[axes["dtype"]].itemsize
    rows = n if op == "mhc_head" else n * (n + 2)
    x, parameters = ((t, n, hidden), narrow), [((rows, n * hidden), 4), ((3,), 4), ((rows,), 4), ((n, hidden), 4)]
    written = [((t, hidden), narrow), ((t, n), 4), ((t, n, n), 4)]
    logits = math.factorial(n) if n <= 4 and axes["dtype"] == "fp32" else n * n
    mixed = 2 * n + logits
    mapping = [((mixed, n * hidden), 4), ((3,), 4), ((mixed,), 4), ((n, hidden), 4)]
    made = [((t, n), 4), ((t, n), 4), ((t, logits), 4)]
    kept = [((t, mixed), 4), ((t,), 4)]
    forward = {
        "mhc_pre": [((t, hidden), narrow), ((t, n), 4), ((t, n, n), 4), ((t, rows), 4), ((t,), 4)],
        "mhc_head": [((t, hidden), narrow), ((t, n), 4), ((t,), 4)],
        "mhc_post": [x],
        "mhc_post_pre": [((t, hidden), narrow), ((t, n), 4), ((t, n, n), 4), x, ((t, rows), 4), ((t,), 4)],
        "mhc_read": [((t, hidden), narrow)],
        "mhc_coefficients": [*made, *kept],
        "mhc_single_pass": [((t, hidden), narrow), *made, x, ((t, hidden), narrow), ((t,), 4), *kept],
        "sinkhorn": [((t, n, n), 4)],
        "expand": [x],
    }
    forward["mhc_pre_norm"] = [*forward["mhc_pre"][:3], ((t, hidden), narrow), ((t,), 4), *forward["mhc_pre"][3:]]
    for name in ("mhc_pre_norm", "mhc_single_pass"):
        forward[f"{name}_fp8"] = [((t, hidden), 1), ((t, hidden // 128), 4), *forward[name][1:]]
    backward = {
        "mhc_pre": [x, *parameters],
        "mhc_pre_norm": [x, *parameters, ((hidden,), 4)],
        "mhc_head": [x, *parameters],
        "mhc_post": [x, *written],
        "mhc_post_pre": [x, *written, *parameters],
        "mhc_read": [x, ((t, n), 4)],
        "mhc_coefficients": [x, *mapping],
        "mhc_single_pass": [x, *written, ((t, n), 4), *mapping, ((hidden,), 4)],
        "sinkhorn": [((t, n, n), 4)],
        "expand": [((t, hidden), narrow)],
    }
    return {"forward": forward, "backward": backward}[direction][op]


@pytest.mark.slow
def test_a_case_of_the_quick_tier_leaves_two_kilobytes_on_average_at_the_most():
    cases = plan(load(ROOT / "matrix.yaml"), "quick").cases
    sizes = [
        sum(
            len(positions(case.name, str(place), shape)) * itemsize
            for place, (shape, itemsize) in enumerate(shapes(case.cell.op, case.cell.direction, case.axes))
        )
        for case in cases
    ]
    assert len(sizes) > 1000
    assert 500 < mean(sizes) <= MOST_BYTES
