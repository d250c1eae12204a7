# /// probe
# asks = "Does device='cuda' say that this PyTorch is a CPU build, or that no GPU is here?"
# means = "The message tells whether the wheel is wrong or the device is missing."
# met = "the first documents, on a machine that had a GPU and the wheel for the CPU"
# truth = "'Torch not compiled with CUDA enabled' means the wheel. 'No CUDA GPUs are available' and 'Found no NVIDIA driver' mean the machine."
# requires = ["torch"]
# [[expect]]
# verdict = "works"
# ///
import torch

if not torch.cuda.is_available():
    try:
        torch.zeros(1, device="cuda")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        wheel = torch.version.cuda is None and torch.version.hip is None
        assert ("not compiled with CUDA" in str(error)) == wheel, error
    else:
        raise AssertionError("a tensor is on a GPU that is not here")
