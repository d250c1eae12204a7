"""Build a C++ extension with CUDA sources, and call a function of it that nobody can answer."""

import tempfile
from pathlib import Path

from torch.utils.cpp_extension import load

SOURCE = """\
#include <cuda_runtime.h>
template <typename T, int N>
__global__ void scale(T* x, float by, int n) {
  __shared__ T tile[N];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { tile[threadIdx.x] = x[i]; __syncthreads(); x[i] = tile[threadIdx.x] * T(by); }
}
template __global__ void scale<float, 128>(float*, float, int);
template __global__ void scale<double, 256>(double*, float, int);
namespace { __global__ void add(float* x, const float* y) { x[threadIdx.x] += y[threadIdx.x]; } }
void launch(float* x, const float* y) { add<<<1, 32>>>(x, y); }
"""

folder = Path(tempfile.gettempdir(), "launched_extension")
folder.mkdir(exist_ok=True)
(folder / "scale.cu").write_text(SOURCE)
(folder / "bind.cpp").write_text("int nothing;\n")
module = load("scaling", [str(folder / "bind.cpp"), str(folder / "scale.cu")], extra_cuda_cflags=["-O3"])
module.scale(1)
