"""``DTensor`` and FSDP2: two processes give what one process gives."""

from __future__ import annotations

import os
import sys

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor

import mhc
from spy import HIDDEN, TENSORS, N, arguments, call, tensor

PROCESSES = 2
PARAMETERS = {
    "mhc_pre": range(1, 5),
    "mhc_pre_norm": range(1, 6),
    "mhc_post_pre": range(4, 8),
    "mhc_head": range(1, 5),
    "mhc_coefficients": range(1, 5),
    "mhc_single_pass": range(5, 10),
}
CHECKS = {}


def check(function):
    """Have the function run in every process; the mesh of both is its argument."""
    CHECKS[function.__name__] = function
    return function


@check
def tokens_are_spread(mesh):
    """Any leading dimension may be spread, evenly or not: results are spread like x, gradients of parameters sums."""
    for op in TENSORS:
        # Where the tokens lie in the shape is the same code for each operator.
        for lead, dim in (((5,), 0), ((2, 4), 1), *((((6,), 0), ((3, 2), 0)) if op == "mhc_pre" else ())):
            values, plain = arguments(op, lead=lead), arguments(op, lead=lead)
            count, parameters = TENSORS[op], PARAMETERS.get(op, ())
            spread = [
                distribute_tensor(value.detach(), mesh, [Replicate() if place in parameters else Shard(dim)])
                for place, value in enumerate(values[:count])
            ]
            for value in spread:
                value.requires_grad_()
            outputs, expected = call(op, *spread, *values[count:]), call(op, *plain)
            for own, other in zip(outputs, expected, strict=True):
                assert own.placements == (Shard(dim),), (op, own.placements)
                assert own.shape == other.shape
                torch.testing.assert_close(own.full_tensor(), other)
            sum(output.square().sum() for output in outputs).full_tensor().backward()
            sum(output.square().sum() for output in expected).backward()
            for place, (own, other) in enumerate(zip(spread, plain, strict=False)):
                wanted = Partial() if place in parameters else Shard(dim)
                assert own.grad.placements == (wanted,), (op, place, own.grad.placements)
                torch.testing.assert_close(own.grad.full_tensor(), other.grad, rtol=1e-5, atol=1e-5)


@check
def replicated_tokens_have_whole_gradients(mesh):
    plain = arguments("mhc_pre")[:5]
    everywhere = [distribute_tensor(value.detach(), mesh, [Replicate()]).requires_grad_() for value in plain]
    for values in (everywhere, plain):
        sum(output.square().sum() for output in mhc.mhc_pre(*values)).backward()
    for own, other in zip(everywhere, plain, strict=True):
        assert own.grad.placements == (Replicate(),)
        torch.testing.assert_close(own.grad.to_local(), other.grad)


@check
def a_spread_parameter_is_gathered(mesh):
    x, *parameters = arguments("mhc_pre", lead=(4,))[:5]
    spread = [distribute_tensor(value.detach(), mesh, [Shard(0)]) for value in (x, *parameters[:1])]
    others = [distribute_tensor(value.detach(), mesh, [Replicate()]) for value in parameters[1:]]
    spread[1].requires_grad_()
    for own, other in zip(mhc.mhc_pre(*spread, *others), mhc.mhc_pre(x, *parameters), strict=True):
        torch.testing.assert_close(own.full_tensor(), other)
    mhc.mhc_pre(*spread, *others).h_res.sum().full_tensor().backward()
    mhc.mhc_pre(x, *parameters).h_res.sum().backward()
    assert spread[1].grad.placements == (Shard(0),)
    torch.testing.assert_close(spread[1].grad.full_tensor(), parameters[0].grad, rtol=1e-5, atol=1e-5)


@check
def a_module_runs_with_spread_tokens(mesh):
    torch.manual_seed(0)
    module = nn.Sequential(mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN), mhc.HyperHead(N, HIDDEN))
    x = tensor(2, 6, N, HIDDEN, requires_grad=False)
    expected = module(x)
    expected.square().sum().backward()
    grads = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    distribute_module(module, mesh)
    out = module(distribute_tensor(x, mesh, [Shard(1)]))
    torch.testing.assert_close(out.full_tensor(), expected)
    out.square().sum().full_tensor().backward()
    for parameter, grad in zip(module.parameters(), grads, strict=True):
        torch.testing.assert_close(parameter.grad.full_tensor(), grad, rtol=1e-5, atol=1e-5)


@check
def a_stack_of_layers_that_fsdp_shards_gives_what_whole_layers_give(mesh):
    torch.manual_seed(0)
    stack = mhc.HyperStack(mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN) for _ in range(3))
    x = tensor(6, N, HIDDEN, requires_grad=False)
    expected = nn.Sequential(*stack)(x)
    expected.square().sum().backward()
    grads = [parameter.grad for parameter in stack.parameters()]
    stack.zero_grad()
    for layer in stack:
        fully_shard(layer, mesh=mesh)
    fully_shard(stack, mesh=mesh)
    out = stack(x)
    torch.testing.assert_close(out, expected)
    out.square().sum().backward()
    for parameter, grad in zip(stack.parameters(), grads, strict=True):
        assert parameter.grad.placements == (Shard(0),)
        torch.testing.assert_close(parameter.grad.full_tensor(), grad, rtol=1e-5, atol=1e-5)


@check
def narrow_parameters_are_taken(mesh):
    x, *parameters = (value.detach().bfloat16() for value in arguments("mhc_pre", lead=(4,))[:5])
    spread = [distribute_tensor(x, mesh, [Shard(0)])]
    spread += [distribute_tensor(value, mesh, [Replicate()]).requires_grad_() for value in parameters]
    mhc.mhc_pre(*spread).h_res.sum().full_tensor().backward()
    assert {value.grad.dtype for value in spread[1:]} == {torch.bfloat16}


@check
def what_is_not_spread_over_tokens_is_refused(mesh):
    x, *parameters = (value.detach() for value in arguments("mhc_pre", lead=(4,))[:5])
    everywhere = [distribute_tensor(value, mesh, [Replicate()]) for value in parameters]
    for placement in (Shard(1), Shard(2), Shard(-1)):
        with pytest.raises(ValueError, match=r"mhc_pre: x of shape \(4, 2, 4\) is placed .*redistribute it"):
            mhc.mhc_pre(distribute_tensor(x, mesh, [placement]), *everywhere)
    with pytest.raises(ValueError, match="only its tokens"):
        mhc.mhc_pre(DTensor.from_local(x, mesh, [Partial()]), *everywhere)
    with pytest.raises(ValueError, match="mhc_pre: phi is a plain tensor, and another is a DTensor; distribute it too"):
        mhc.mhc_pre(distribute_tensor(x, mesh, [Shard(0)]), *parameters)


def process(rank, rendezvous):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=PROCESSES)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    for name, function in CHECKS.items():
        try:
            function(mesh)
        except Exception as error:
            error.add_note(f"in the check {name!r} of process {rank}")
            raise
    dist.destroy_process_group()
    # As in examples/train_fsdp.py: a thread of gloo can abort a process while Python ends. What fails raises before.
    os._exit(0)


@pytest.mark.filterwarnings("ignore")  # of torch.distributed, which are not ours
def test_two_processes_give_what_one_gives(tmp_path, monkeypatch):
    """Another process imports all of this once, and both come from it."""
    assert len(CHECKS) == 7
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    mp.get_context("forkserver").set_forkserver_preload([__name__])
    rendezvous = str(tmp_path / "rendezvous")
    mp.start_processes(process, (rendezvous,), nprocs=PROCESSES, start_method="forkserver")
