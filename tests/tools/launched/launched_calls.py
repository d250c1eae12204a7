"""Launch every kernel of the small package. The environment variable WRONG makes an assertion fail."""

import os

import launched_kernels as kernels
import torch

x, y = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
out = torch.empty_like(x)
assert out.is_cuda
assert out.device == torch.device("cuda", 0)

kernels.mean_of_two[(4,)](x, y, out, 1000, 0.25, block=256)
torch.testing.assert_close(out, (x + y) / 2 + 0.25 + ("WRONG" in os.environ))
halves = (x.half()[:64], y.half()[:64], out.half()[:64])
kernels.mean_of_two[(1,)](*halves, 64, 0.25, block=64, num_warps=32)  # 2,048 threads on AMD
kernels.tuned[lambda meta: (-(-1000 // meta["block"]),)](x, out, 1000)
torch.testing.assert_close(out, x.exp())

if "FEW" not in os.environ:
    import launched_questions  # noqa: F401  it asserts

    kernels.only_nvidia[(1,)](x, out, block=64)
    square = torch.zeros(128, 128, device="cuda")
    kernels.product[(1,)](square, square, torch.empty_like(square), size=128)
    kernels.wrong_shapes[(1,)](x, out, block=64)
    kernels.crashing[(1,)](out)
    kernels.refused[(1,)](out)
    if torch.version.hip:
        kernels.endless[(1,)](out)
        kernels.greedy[(1,)](out)
        kernels.mean_of_two[(4,)](x, y, out, 1000, 0.25, block=512)  # only where it is told that it runs on AMD
    else:
        assert getattr(torch.cuda.get_device_properties(0), "pci_bus_id", None) is None
