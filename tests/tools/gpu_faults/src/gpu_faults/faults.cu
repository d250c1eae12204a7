// Each kernel doubles x into out. Each has one fault, and the numbers are right in spite of it where that is possible.
#include <cuda_runtime.h>

constexpr int kThreads = 256;

__global__ void sound_kernel(const float* x, float* out, int n) {
  __shared__ float s[kThreads];
  int t = threadIdx.x;
  s[t] = t < n ? x[t] : 0.0f;
  __syncthreads();
  if (t < n) out[t] = 2.0f * s[t];
}

// The thread after the last one reads too.
__global__ void past_end_kernel(const float* x, float* out, int n) {
  int t = threadIdx.x;
  float value = t <= n ? x[t] : 0.0f;
  if (t < n) out[t] = 2.0f * value;
  if (t == n && value == 12345.5f) out[0] = value;
}

// The last byte of a buffer of 2 GiB and a little: its index does not fit into 32 bits.
__global__ void index_kernel(const float* x, float* out, int n, const signed char* large, int block) {
  int t = threadIdx.x;
  int index = block * kThreads + t;
  if (t < n) out[t] = 2.0f * x[t] + (large[index] == 77 ? 1.0f : 0.0f);
}

// A warp overwrites what another warp has read, a moment later and with no barrier between the two.
__global__ void race_kernel(const float* x, float* out, int n) {
  __shared__ float s[kThreads];
  int t = threadIdx.x;
  s[t] = t < n ? x[t] : 0.0f;
  __syncthreads();
  if (t < n) out[t] = 2.0f * s[t];
  __nanosleep(100000);
  s[(t + 32) % kThreads] = 0.0f;
  if (t < n && s[t] == 77.0f) out[t] = 0.0f;
}

__global__ void never_written_kernel(const float* x, float* out, int n, const unsigned* scratch) {
  int t = threadIdx.x;
  if (t < n) out[t] = 2.0f * x[t] + (scratch[t] == 0x12345678u ? 1.0f : 0.0f);
}

// The halves of a warp wait at two different barriers.
__global__ void barrier_kernel(const float* x, float* out, int n) {
  int t = threadIdx.x;
  float value = t < n ? x[t] : 0.0f;
  if (t % 32 < 16) {
    value *= 2.0f;
    asm volatile("bar.sync 0;");
  } else {
    value += value;
    asm volatile("bar.sync 0;");
  }
  if (t < n) out[t] = value;
}

// Sound: a warp writes and meets in __syncwarp, one of its threads arrives at the barrier, and the readers wait for it.
__global__ void elected_kernel(const float* x, float* out, int n) {
  __shared__ float s[kThreads];
  __shared__ unsigned long long barrier;
  int t = threadIdx.x;
  unsigned address = unsigned(__cvta_generic_to_shared(&barrier));
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(kThreads / 32) : "memory");
  __syncthreads();
  s[t] = t < n ? x[t] : 0.0f;
  __syncwarp();
  if (t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(
          address)
      : "memory");
  int other = n - 1 - t;  // what another warp wrote
  if (t < n) out[other] = 2.0f * s[other];
}

static int ended() {
  cudaError_t status = cudaDeviceSynchronize();
  return status == cudaSuccess ? cudaGetLastError() : status;
}

extern "C" {

int sound(const float* x, float* out, int n) {
  sound_kernel<<<1, kThreads>>>(x, out, n);
  return ended();
}

int past_end(const float* x, float* out, int n) {
  past_end_kernel<<<1, kThreads>>>(x, out, n);
  return ended();
}

int index_of_32_bits(const float* x, float* out, int n) {
  signed char* large = nullptr;
  size_t size = (size_t(1) << 31) + kThreads;
  if (cudaMalloc(&large, size) != cudaSuccess) return 2;
  cudaMemset(large, 0, size);
  index_kernel<<<1, kThreads>>>(x, out, n, large, 1 << 23);
  int status = ended();
  cudaFree(large);
  return status;
}

int shared_race(const float* x, float* out, int n) {
  race_kernel<<<1, kThreads>>>(x, out, n);
  return ended();
}

int never_written(const float* x, float* out, int n) {
  unsigned* scratch = nullptr;
  if (cudaMalloc(&scratch, kThreads * sizeof(unsigned)) != cudaSuccess) return 2;
  never_written_kernel<<<1, kThreads>>>(x, out, n, scratch);
  int status = ended();
  cudaFree(scratch);
  return status;
}

int elected_arrival(const float* x, float* out, int n) {
  elected_kernel<<<1, kThreads>>>(x, out, n);
  return ended();
}

int divergent_barrier(const float* x, float* out, int n) {
  barrier_kernel<<<1, kThreads>>>(x, out, n);
  return ended();
}
}
