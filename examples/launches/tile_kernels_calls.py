"""Call functions of tile-kernels 1.0.0, whose kernels are programs of TileLang.

kernel-matrix launches -- python examples/launches/tile_kernels_calls.py
"""

import torch
from calls import call, end, tensor
from tile_kernels import moe, transpose
from tile_kernels.modeling.mhc import ops

TOKENS, STREAMS, HIDDEN, EXPERTS, TOPK = 128, 4, 2560, 64, 8
streams = tensor(1, TOKENS, STREAMS, HIDDEN, grad=False)
mixes = tensor(1, TOKENS, STREAMS, STREAMS, dtype=torch.float32)

call("expand_to_mhc", ops.expand_to_mhc, tensor(1, TOKENS, HIDDEN), STREAMS)
call("sinkhorn_normalize", ops.sinkhorn_normalize, mixes)
with torch.no_grad():
    post = tensor(1, TOKENS, STREAMS, 1, dtype=torch.float32, grad=False)
    call("mhc_post", ops.mhc_post, tensor(1, TOKENS, HIDDEN, grad=False), streams, post, mixes.detach())
    call("topk_gate", moe.topk_gate, tensor(TOKENS, EXPERTS, dtype=torch.float32, grad=False), TOPK)
    call("normalize_weight", moe.normalize_weight, tensor(TOKENS, TOPK, dtype=torch.float32, grad=False))
    call("group_count", moe.group_count, torch.randint(0, EXPERTS, (TOKENS, TOPK), device="cuda"), EXPERTS)
    call("transpose", transpose.transpose, tensor(TOKENS, 256, grad=False))

end()
