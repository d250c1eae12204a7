"""The published libraries among the rivals: their layouts are turned into ours and back, and their versions told apart.

The doubles compute DeepSeek's functions in eager PyTorch, by the names and shapes that TileKernels and DeepGEMM have.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from loops import at_least

from kernel_matrix.tools.bench.inside.protocol import AbsentError

ROOT = Path(__file__).resolve().parents[2]
AXES = {"tokens": 5, "streams": 4, "hidden": 64, "dtype": "bf16"}
KERNELS = """
import torch


def balanced(logits, repeat, eps):
    m = logits.softmax(-1) + eps
    m = m / (m.sum(-2, keepdim=True) + eps)
    for _ in range(repeat - 1):
        m = m / (m.sum(-1, keepdim=True) + eps)
        m = m / (m.sum(-2, keepdim=True) + eps)
    return m


def written(y, x, post, comb):
    return (post * y.float().unsqueeze(-2) + comb.mT @ x.float()).bfloat16()


def back(function, inputs, grad):
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return torch.autograd.grad(function(*leaves), leaves, grad)


def mhc_post_fwd(y, x, post, comb, out):
    return out.copy_(written(y, x, post, comb))


def mhc_post_bwd(y, x, post, comb, grad):
    return back(written, (y, x, post, comb), grad)


def mhc_sinkhorn_fwd(logits, out, repeat, eps):
    out.copy_(balanced(logits, repeat, eps))


def mhc_sinkhorn_bwd(grad, logits, out, repeat, eps):
    out.copy_(back(lambda m: balanced(m, repeat, eps), [logits], grad)[0])


def expand_to_mhc_fwd(x, out):
    out.copy_(x.unsqueeze(1).expand_as(out))


def expand_to_mhc_bwd(grad, out):
    out.copy_(grad.float().sum(1))


def mixes(sums, squares, width, scale, base, eps, pre_eps, post_scale):
    m = sums * torch.rsqrt(squares / width + eps).unsqueeze(-1)
    pre = torch.sigmoid(m[..., :4] * scale[0] + base[:4]) + pre_eps
    post = torch.sigmoid(m[..., 4:8] * scale[1] + base[4:8]) * post_scale
    return pre, post, (m[..., 8:] * scale[2] + base[8:]).unflatten(-1, (4, 4))


def mhc_pre_big_fuse_fwd(sums, squares, scale, base, x, post, comb, h_in, *constants, n_splits):
    assert len(sums) == n_splits
    eps, pre_eps, s_eps, post_scale, repeat = constants
    wide = x.float()
    pre, h_post, logits = mixes(sums.sum(0), squares.sum(0), wide[0].numel(), scale, base, eps, pre_eps, post_scale)
    post.copy_(h_post)
    comb.copy_(balanced(logits, repeat, s_eps).flatten(1))
    h_in.copy_((pre.unsqueeze(-1) * wide).sum(1))
"""
FUNCTIONS = '''
import torch
from tile_kernels.mhc import back, balanced, mixes, written


class Adding(torch.autograd.Function):
    """Add the gradient of x to the one that its storage holds, in place."""

    @staticmethod
    def forward(ctx, function, x, *parameters):
        ctx.function = function
        ctx.save_for_backward(x, *parameters)
        return function(x, *parameters)

    @staticmethod
    def backward(ctx, *grads):
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            dx, *rest = back(ctx.function, (x, *parameters), grads)
        x.untyped_storage().grad_from_mhc_post.view_as(x).add_(dx)
        del x.untyped_storage().grad_from_mhc_post
        return None, None, *rest


class Post(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return written(*inputs)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            grads = back(written, ctx.saved_tensors, grad)
        ctx.saved_tensors[1].untyped_storage().grad_from_mhc_post = grads[1]
        return grads


mhc_post = Post.apply
sinkhorn_normalize = balanced


def mhc_pre(x, fn, scale, base, *, norm_eps, post_mult_value, sinkhorn_repeat, sinkhorn_eps, pre_eps=1e-6):
    def function(x, fn, scale, base):
        flat = x.float().flatten(-2)
        constants = (norm_eps, pre_eps, post_mult_value)
        pre, post, comb = mixes(flat @ fn.T, flat.square().sum(-1), flat.shape[-1], scale, base, *constants)
        h_in = (pre.unsqueeze(-1) * x.float()).sum(-2).bfloat16()
        return h_in, post.unsqueeze(-1), balanced(comb, sinkhorn_repeat, sinkhorn_eps)

    h_in, post, comb = Adding.apply(function, x, fn, scale, base)
    return h_in, (post, comb)
'''
ENGINE = """
from doubles import balanced, mixes


def mhc_fused_sinkhorn(H_res, n=4, recompute_hist=True, iters=20):
    return balanced(H_res, iters, 0.0)


def mhc_fused_expand_combine(f, bias, H_post, x, H_res, n):
    return (f.float().unsqueeze(-1) * H_post.unsqueeze(-2) + x.float() @ H_res).bfloat16()


splits = []


def mhc_generate_mix_and_aggregate(x, phi, alpha, beta, use_split_k=False):
    splits.append(use_split_k)
    flat = x.float().flatten(-2)
    constants = (1e-6, 0.0, 2.0)
    pre, post, comb = mixes(flat @ phi.T, flat.square().sum(-1), flat.shape[-1], alpha, beta[0], *constants)
    return (x.float() @ pre.unsqueeze(-1)).squeeze(-1).bfloat16(), post, balanced(comb, 20, 0.0)
"""
TILEGYM = """
from doubles import balanced


def mhc_apply_residual(x, f_out, y, n):
    post, res = y[:, n : 2 * n, None], y[:, 2 * n :].unflatten(1, (n, n))
    out = post * f_out.float().unsqueeze(1) + res @ x.unflatten(1, (n, -1)).float()
    return out.flatten(1).bfloat16()


def mhc_sinkhorn(y, n):
    y[:, 2 * n :] = balanced(y[:, 2 * n :].unflatten(1, (n, n)), 20, 0.0).flatten(1)
    return y
"""
FLASHINFER = """
from doubles import balanced, mixes, written


def mhc_post(x, residual, post, comb):
    return written(x, residual, post.unsqueeze(-1), comb)


def mhc_pre_big_fuse(dots, squares, residual, scale, base, k, *, num_splits, sinkhorn_repeat, **constants):
    if num_splits > 1:
        assert len(dots) == num_splits
        dots, squares = dots.sum(0), squares.sum(0)
    eps, pre_eps, s_eps, post_scale = (
        constants[name] for name in ("rms_eps", "mhc_pre_eps", "mhc_sinkhorn_eps", "mhc_post_mult_value")
    )
    assert s_eps > 0
    pre, post, comb = mixes(dots, squares, k, scale, base, eps, pre_eps, post_scale)
    h_in = (pre.unsqueeze(-1) * residual.float()).sum(-2).bfloat16()
    return post.unsqueeze(-1), balanced(comb, sinkhorn_repeat, s_eps), h_in
"""
SWITCH = """
def set_pdl(on):
    global pdl
    pdl = on
"""
PROJECTION = """
def tf32_hc_prenorm_gemm(a, b, d, s, num_splits):
    d.zero_()[0] = a.float() @ b.T
    s.zero_()[0] = a.float().square().sum(1)
"""


def installed(folder, name, version, **modules):
    """Put a library into a folder: its metadata, and a module for each dotted name."""
    metadata = folder / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for module, text in modules.items():
        path = folder.joinpath(*module.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """The modules of the benchmark, in a process where both versions of TileKernels and DeepGEMM are installed."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    for path in at_least(3, (ROOT / "benchmarks").glob("*.py")):  # the suite has modules of the same names
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    monkeypatch.setitem(sys.modules, "tilelang.utils.target", sys)  # TileLang's module is not needed
    monkeypatch.setenv("BENCH_PEERS", str(tmp_path))
    installed(tmp_path / "tilekernels", "tile_kernels", "2.1.0", tile_kernels__mhc=KERNELS, tile_kernels__config=SWITCH)
    both = {"tile_kernels__mhc": KERNELS, "tile_kernels__modeling__mhc__functional": FUNCTIONS}
    installed(tmp_path / "tilekernels-1", "tile_kernels", "1.0.0", **both)
    installed(tmp_path / "deepgemm", "sgl_deep_gemm", "0.1.5", deep_gemm=PROJECTION)
    engine = {"doubles": KERNELS, "transformer_engine__pytorch__triton__mhc": ENGINE}
    installed(tmp_path / "transformer-engine", "transformer_engine", "2.20.2", **engine)
    installed(tmp_path / "flashinfer", "flashinfer_python", "0.7.2", doubles=KERNELS, flashinfer__mhc=FLASHINFER)
    tilegym = {"doubles": KERNELS, "tilegym__ops__cutile__experimental__mhc": TILEGYM}
    installed(tmp_path / "tilegym", "tilegym", "1.5.1", **tilegym)
    yield importlib.import_module
    doubles = ("tile_kernels", "deep_gemm", "transformer_engine", "flashinfer", "tilegym", "doubles")
    for name in [name for name in sys.modules if name.split(".")[0] in doubles]:
        del sys.modules[name]


BOTH = ("forward", "backward")
FUNCTIONS_OF = [
    *(("tilekernels", op, direction) for op in ("mhc_post", "sinkhorn", "expand") for direction in BOTH),
    *(("tilekernels_1", op, direction) for op in ("mhc_post", "sinkhorn", "read") for direction in BOTH),
    ("tilekernels_1", "layer", "step"),
    ("deepgemm", "read", "forward"),
    *(("engine", op, direction) for op in ("mhc_post", "sinkhorn", "read") for direction in BOTH),
    ("engine", "layer", "step"),
    ("flashinfer_mhc", "mhc_post", "forward"),
    ("flashinfer_mhc", "read", "forward"),
    ("tilegym_mhc", "mhc_post", "forward"),
    ("tilegym_mhc", "sinkhorn", "forward"),
]


def subject(bench, op, direction, **axes):
    return bench("adapter").adapter("cpu").subject(op, direction, {**AXES, **axes})


def distances(bench, library, of):
    make = bench(library).MAKERS[of.op, of.direction]
    return bench("calls").CallContender(of, make).distances()


@pytest.mark.parametrize("processors", [1, 3])
def test_a_read_of_flashinfer_has_as_many_parts_as_it_adds_up(bench, monkeypatch, processors):
    monkeypatch.setattr(bench("deepgemm"), "_processors", lambda _: processors)
    monkeypatch.setattr(bench("deepgemm"), "_COLUMNS", 64)
    found = distances(bench, "flashinfer_mhc", subject(bench, "read", "forward"))
    assert found["h_res"].error.rel_fro < 1e-5


def test_the_modules_of_one_version_belong_together(bench):
    """Else a switch would belong to a copy which no kernel asks."""
    kernels, switch = bench("tilekernels").kernels(), bench("tilekernels").set_pdl()
    switch(True)
    assert sys.modules["tile_kernels.mhc"] is kernels
    assert sys.modules["tile_kernels.config"].pdl


def test_a_switch_is_on_while_a_run_is_made(bench):
    seen, calls = [], bench("calls")
    made = calls.CallContender(None, lambda subject, place: calls.Call(lambda: seen.append("run"), lambda out: {}))
    [run] = calls.switched(made, [seen.append]).runs(1)
    run()
    assert seen == [True, "run", False]


@pytest.mark.parametrize(("library", "op", "direction"), FUNCTIONS_OF)
def test_a_library_computes_our_function(bench, monkeypatch, library, op, direction):
    monkeypatch.setattr(bench("deepgemm"), "_processors", lambda _: 3)
    of = subject(bench, op, direction)
    found = distances(bench, library, of)
    assert set(found) == set(of.golden)
    for name, distance in found.items():
        assert distance.finite
        assert distance.error.rel_fro < (1e-5 if of.golden[name].shape[-1] == 4 else 8e-3), name


def test_a_sum_of_transformer_engine_is_split_where_that_is_asked_for(bench):
    makers = bench("engine").ATOMIC
    assert set(makers) == {("read", "forward"), ("read", "backward"), ("layer", "step")}
    for (op, direction), make in makers.items():
        found = bench("calls").CallContender(subject(bench, op, direction), make).distances()
        assert all(distance.error.rel_fro < 8e-3 for distance in found.values())
    assert sys.modules["transformer_engine.pytorch.triton.mhc"].splits == [True] * 3


@pytest.mark.parametrize("library", ["tilekernels", "tilekernels_1"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_sinkhorn_has_the_form_that_is_asked_for(bench, library, direction):
    of = subject(bench, "sinkhorn", direction, form="deepseek", dtype="fp32")
    assert distances(bench, library, of)[next(iter(of.golden))].error.rel_fro < 1e-5


def test_every_function_is_tested(bench):
    names = ("tilekernels", "tilekernels_1", "deepgemm", "engine", "flashinfer_mhc", "tilegym_mhc")
    assert {(name, *of) for name in names for of in bench(name).MAKERS} == set(FUNCTIONS_OF)


def test_a_run_can_be_repeated(bench):
    for op, direction in (("read", "backward"), ("layer", "step")):
        of = subject(bench, op, direction)
        call = bench("tilekernels_1").MAKERS[op, direction](of, 0)
        first, second = (call.outputs(call.run()) for _ in range(2))
        for name, tensor in first.items():
            assert torch.equal(tensor, second[name]), name


def test_both_versions_are_used_in_one_process(bench):
    kernels, functions = bench("tilekernels").kernels(), bench("tilekernels_1").functions()
    assert "tilekernels-1" in functions.__file__
    assert "tilekernels-1" not in kernels.__file__
    assert bench("peers").versions() == {
        "version.tilekernels": "2.1.0",
        "version.tilekernels-1": "1.0.0",
        "version.deepgemm": "0.1.5",
        "version.transformer-engine": "2.20.2",
        "version.flashinfer": "0.7.2",
        "version.tilegym": "1.5.1",
    }


def test_what_is_not_there_is_named(bench, monkeypatch, tmp_path):
    for folder, text in (("empty", "is not installed"), ("old", r"in version 0\.9")):
        installed(tmp_path / "old" / "tilekernels", "tile_kernels", "0.9")
        monkeypatch.setenv("BENCH_PEERS", str(tmp_path / folder))
        with pytest.raises(AbsentError, match=text):
            subject(bench, "mhc_post", "forward").contender("tilekernels")
        if folder == "empty":
            (tmp_path / "old").rename(tmp_path / "gone")


@pytest.mark.parametrize(
    ("name", "op", "direction", "axes", "reason"),
    [
        ("tilekernels", "read", "forward", {}, "has no read forward"),
        ("deepgemm", "read", "backward", {}, "has no read backward"),
        ("tilekernels", "mhc_post", "forward", {}, "need a GPU"),
        ("tilegym", "mhc_post", "forward", {"hidden": 1280}, "leaves out the columns"),
    ],
)
def test_what_a_library_cannot_do_is_named(bench, name, op, direction, axes, reason):
    with pytest.raises(AbsentError, match=reason):
        subject(bench, op, direction, **axes).contender(name)


def test_a_copy_keeps_its_outputs_until_it_runs_again(bench):
    """With the memory of the run before for its outputs, a run would write to the cache, and others to the memory."""
    alive, written = set(), []

    class Output:
        def __init__(self, place):
            written.append((place, frozenset(alive)))
            alive.add(place)
            self.place = place

        def __del__(self):
            alive.discard(self.place)

    bench("clocks").issue([lambda place=place: Output(place) for place in range(3)], rounds=2)
    first, second = written[:3], written[3:]
    assert [sorted(others) for _, others in first] == [[], [0], [0, 1]]
    assert [sorted(others) for _, others in second] == [[1, 2], [0, 2], [0, 1]]
    assert not alive
