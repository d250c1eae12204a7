// What the kernels need of a device, in the same words for nvcc, hipcc, clang without ROCm, and a CPU's C++ compiler.
#pragma once

#if defined(__HIP__)
#if __has_include(<hip/hip_runtime.h>)
#include <hip/hip_runtime.h>
#define MHC_THREAD threadIdx.x
#define MHC_BLOCK(AXIS) blockIdx.AXIS
#define MHC_SHUFFLE_XOR(VALUE, MASK) __shfl_xor(VALUE, MASK, 32)
#else  // clang's own built-in functions
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(THREADS) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
#define MHC_THREAD __builtin_amdgcn_workitem_id_x()
#define MHC_BLOCK(AXIS) __builtin_amdgcn_workgroup_id_##AXIS()
#define MHC_SHUFFLE_XOR(VALUE, MASK) mhc_shuffle_xor(VALUE, MASK)
static __device__ __forceinline__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
static __device__ __forceinline__ float mhc_shuffle_xor(float value, int mask) {
  const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * (lane ^ mask), __builtin_bit_cast(int, value)));
}
#endif
#define EXPORT(NAME)
#elif defined(__CUDACC__)
#define MHC_THREAD threadIdx.x
#define MHC_BLOCK(AXIS) blockIdx.AXIS
#define MHC_SHUFFLE_XOR(VALUE, MASK) __shfl_xor_sync(0xffffffffu, VALUE, MASK, 32)
#define EXPORT(NAME)
#else
#include "fibers.h"
#define MHC_THREAD threadIdx.x
#define MHC_BLOCK(AXIS) blockIdx.AXIS
#define MHC_SHUFFLE_XOR(VALUE, MASK) __shfl_xor_sync(0xffffffffu, VALUE, MASK, 32)
#endif

// Root, nearest integer and a b + c with one rounding; a CPU's compiler knows them without a header.
#if defined(__CUDACC__) && !defined(__HIP__)
#define MHC_SQRT(X) sqrtf(X)
#define MHC_RINT(X) rintf(X)
#define MHC_FMA(A, B, C) fmaf(A, B, C)
#define MHC_BITS_OF(X) __float_as_uint(X)
#define MHC_FLOAT_OF(BITS) __uint_as_float(BITS)
#else
#define MHC_SQRT(X) __builtin_sqrtf(X)
#define MHC_RINT(X) __builtin_rintf(X)
#define MHC_FMA(A, B, C) __builtin_fmaf(A, B, C)
#define MHC_BITS_OF(X) __builtin_bit_cast(unsigned, X)
#define MHC_FLOAT_OF(BITS) __builtin_bit_cast(float, BITS)
#endif

constexpr int THREADS = 128;  // of every block; a power of two
constexpr int WARP = 32;      // lanes that exchange values; a half of what AMD's older GPUs have

// Of a kernel whose registers hold all streams. For more than eight, ptxas spills some so that more blocks fit on a
// multiprocessor, unless one block is enough; 0 says nothing about that number.
#if defined(__CUDACC__) && !defined(__HIP__)
#define MHC_BOUNDS __launch_bounds__(THREADS, STREAMS > 8)
#else
#define MHC_BOUNDS __launch_bounds__(THREADS)
#endif

__device__ __forceinline__ int thread_index() { return int(MHC_THREAD); }
__device__ __forceinline__ long long block_index() { return (long long)MHC_BLOCK(x); }
__device__ __forceinline__ int block_row() { return int(MHC_BLOCK(y)); }
__device__ __forceinline__ int block_layer() { return int(MHC_BLOCK(z)); }

// On NVIDIA's GPUs from sm_90 on, a launch may begin before the one before it has ended, where hopper.py asks for that.

// Wait until the launch before has ended, and its results are there. What is not waited for must not be used.
__device__ __forceinline__ void wait_for_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Let the launch behind this one begin, if it may begin early, as soon as all blocks have come here.
__device__ __forceinline__ void let_next_launch_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
