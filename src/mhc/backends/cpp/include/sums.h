// Sums in a fixed order: the same inputs give the same bits.
#pragma once
#include "numbers.h"

// Add `value` up over the lanes of each group of `LANES` of a warp, in pairs; every lane gets the sum.
template <int LANES>
__device__ __forceinline__ float sum_of_lanes(float value) {
  for (int apart = LANES / 2; apart > 0; apart /= 2) value += MHC_SHUFFLE_XOR(value, apart);
  return value;
}

// Add each of COUNT values up over the threads of the block: `sums` has the results when all threads have left.
// `partial` is shared memory for all values of all threads.
template <int COUNT>
__device__ __forceinline__ void add_up(const float (&values)[COUNT], float (&partial)[COUNT][THREADS], float* sums) {
  const int thread = thread_index(), lane = thread % WARP;
  for (int i = 0; i < COUNT; ++i) partial[i][thread] = values[i];
  __syncthreads();
  for (int i = thread / WARP; i < COUNT; i += THREADS / WARP) {
    float sum = (partial[i][lane] + partial[i][lane + WARP]) + (partial[i][lane + 2 * WARP] + partial[i][lane + 3 * WARP]);
    sum = sum_of_lanes<WARP>(sum);
    if (lane == 0) sums[i] = sum;
  }
  __syncthreads();
}

// A sum of many terms in two levels: the terms of a stage are added up before they join the others.
constexpr int STAGE = 16;

struct Staged {
  float total = 0.0f, stage = 0.0f;
  int terms = 0;

  __device__ __forceinline__ void add(float term) {
    stage += term;
    if (++terms == STAGE) {
      total += stage;
      stage = 0.0f;
      terms = 0;
    }
  }

  __device__ __forceinline__ float value() const { return total + stage; }
};
