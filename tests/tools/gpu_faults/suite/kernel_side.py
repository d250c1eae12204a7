"""The side of the suite that runs in the kernel's process."""

import torch
from gpu_faults import double

from kernel_matrix.job.worker import Unavailable, enter_stage


def run(arrays, *, backend):
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch sees no NVIDIA GPU")
    x = torch.from_numpy(arrays["x"]).cuda()
    enter_stage("launch")
    return None, {"out": double(backend, x).cpu().numpy()}
