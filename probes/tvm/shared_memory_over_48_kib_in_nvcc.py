# /// probe
# asks = "Does nvcc refuse more than 48 KB of static shared memory?"
# means = "What tvm.compile lets through is caught when the source is really compiled."
# met = "the TVM notes, error 3 (more than 48 KB of shared memory)"
# truth = "Static shared memory ends at 48 KB on every NVIDIA GPU. More must be dynamic (scope 'shared.dyn')."
# requires = ["apache-tvm"]
# needs = ["nvcc"]
# [[expect]]
# verdict = "works"
# ///
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = """
extern "C" __global__ void k(float* a) {
  __shared__ float large[131072];
  large[threadIdx.x] = a[threadIdx.x]; __syncthreads(); a[threadIdx.x] = large[63 - threadIdx.x];
}
"""
nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "k.cu").write_text(SOURCE)
    command = [nvcc, "-cubin", "-arch=sm_90", "-o", f"{folder}/k.cubin", f"{folder}/k.cu"]
    done = subprocess.run(command, capture_output=True, text=True)
print(done.stderr)
assert done.returncode, "nvcc compiled 512 KiB of static shared memory"
assert "too much shared data" in done.stderr, done.stderr
