# /// probe
# asks = "Does device='cuda' say that this PyTorch is a CPU build, or that no GPU is here?"
# means = "The message tells the wrong wheel from the missing device."
# met = "the first documents, on a machine whose GPU was there and whose wheel was the CPU's"
# truth = "'Torch not compiled with CUDA enabled' is the wheel; 'No CUDA GPUs are available' and 'Found no NVIDIA driver' are the machine."
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
