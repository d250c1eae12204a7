"""Call adasplash 0.2.2, forward and backward.

kernel-matrix launches -- python examples/launches/adasplash_calls.py
"""

import adasplash
import torch
from calls import call, end, tensor

half = torch.float16
for name, arguments in (("v1", {}), ("v1 causal", {"is_causal": True}), ("no_block_mask", {})):
    q, k, v = (tensor(1, 2, 256, 64, dtype=half) for _ in range(3))
    function = adasplash.adasplash_no_block_mask if name.startswith("no") else adasplash.adasplash_v1
    call(name, function, q, k, v, **arguments)
call("v2", adasplash.adasplash_v2, *(tensor(1, 2, 256, 64, dtype=half) for _ in range(3)))
call("entmax v1", adasplash.triton_entmax_v1, tensor(64, 512, dtype=torch.float32))
call("entmax v2", adasplash.triton_entmax_v2, tensor(64, 512, dtype=torch.float32))
call("sparsemax", adasplash.triton_sparsemax, tensor(64, 512, dtype=torch.float32))
call("entmax15", adasplash.triton_entmax15, tensor(64, 512, dtype=torch.float32))
end()
