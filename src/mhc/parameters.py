"""Parameters in a narrow dtype: kernels take fp32, and gradients come back in the parameter's dtype.

A gradient that is added up over several backward passes in bf16 loses bits. With ``main_grad`` the gradient of a narrow
parameter is added in fp32 to ``parameter.main_grad``, an attribute that is made when it is first needed, and
``parameter.grad`` stays None. An optimizer reads ``main_grad`` where there is one, and whoever sets gradients to zero
sets ``main_grad`` to None. What waits for ``grad`` (the hooks of ``DistributedDataParallel`` and FSDP) does not see it;
FSDP has ``reduce_dtype`` for the same purpose.
"""

from __future__ import annotations

import torch

NARROW = (torch.bfloat16, torch.float16)
DTYPES = (*NARROW, torch.float32)


def wide(name: str, parameter: torch.Tensor, main_grad: bool) -> torch.Tensor:
    """Return a parameter in fp32; ``name`` names the operator and the parameter, for messages.

    Raises:
        ValueError: ``main_grad`` is asked for, and the parameter is narrow and no leaf: nobody would see the attribute.
    """
    if parameter.dtype == torch.float32:
        return parameter
    if not main_grad or not parameter.requires_grad or not torch.is_grad_enabled():
        return parameter.float()
    # main_grad disables the compiler for a function, and so imports it, which takes longer than importing PyTorch.
    from mhc.main_grad import with_main_grad

    return with_main_grad(name, parameter)
