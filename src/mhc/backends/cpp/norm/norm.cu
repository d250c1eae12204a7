// The RMSNorm behind a read, and its gradients. A block has one token; its threads share out the columns, four at a
// time.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16), and SCALES where h_in is in fp8: 1, or 2 where its scales
// are powers of two.
#include "sums.h"

#ifdef SCALES
using Normed = e4m3;

constexpr int GROUP = 4 * WARP;  // columns with one scale, and of a warp's threads

// Divide the columns of a warp by their scale, and return it. They are rounded to ELEMENT first. The bits of numbers
// without a sign are compared, as those of NaN are above all.
__device__ __forceinline__ float quantise(Four& v) {
  unsigned largest = 0x38d1b717;  // 1e-4
  for (int k = 0; k < 4; ++k) {
    ELEMENT rounded;
    narrow(v.of[k], rounded);
    v.of[k] = widen(rounded);
    const unsigned size = bits_of(v.of[k]) & 0x7fffffff;
    largest = size > largest ? size : largest;
  }
  for (int apart = WARP / 2; apart > 0; apart /= 2) {
    const unsigned other = bits_of(MHC_SHUFFLE_XOR(float_of(largest), apart));
    largest = other > largest ? other : largest;
  }
  unsigned bits = bits_of(float_of(largest) / 448.0f);
  if (SCALES == 2 && bits < 0x7f800000) bits = (bits + 0x7fffff) & 0x7f800000;
  const float scale = float_of(bits);
  for (int k = 0; k < 4; ++k) v.of[k] = v.of[k] / scale;
  return scale;
}
#else
using Normed = ELEMENT;
#endif

// s = 1 / root(mean of read^2 + norm_eps);   h_in = read s norm_weight, in fp8 with a scale for each group of columns
extern "C" __global__ void MHC_BOUNDS
    mhc_norm_forward(const ELEMENT* read, const float* norm_weight, Normed* h_in, float* s, float* scales, int hidden,
                     float norm_eps, int whole) {
  __shared__ float partial[1][THREADS], squares[1];
  const long long token = block_index();
  const int thread = thread_index();
  float sum[1] = {};
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    const Four v = load(read + token * hidden, at, hidden, whole);
    for (int k = 0; k < 4; ++k) sum[0] += v.of[k] * v.of[k];
  }
  add_up(sum, partial, squares);
  const float norm = inverse_root(squares[0] / float(hidden) + norm_eps);
  if (thread == 0) s[token] = norm;
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    Four v = load(read + token * hidden, at, hidden, whole);
    const Four weight = load(norm_weight, at, hidden, whole);
    for (int k = 0; k < 4; ++k) v.of[k] = v.of[k] * norm * weight.of[k];
#ifdef SCALES  // hidden is a multiple of GROUP: a warp comes here whole, or not at all
    const float scale = quantise(v);
    if (thread % WARP == 0) scales[(token * hidden + at) / GROUP] = scale;
#endif
    store(h_in + token * hidden, at, hidden, whole, v);
  }
}

// grad_read = s (g - read s mean(g read s)), where g = grad_h_in norm_weight
extern "C" __global__ void MHC_BOUNDS
    mhc_norm_grad_read(const ELEMENT* read, const float* norm_weight, const float* s, const ELEMENT* grad_h_in,
                       ELEMENT* grad_read, int hidden, int whole) {
  __shared__ float partial[1][THREADS], products[1];
  const long long token = block_index();
  const int thread = thread_index();
  const float norm = s[token];
  float sum[1] = {};
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    const Four v = load(read + token * hidden, at, hidden, whole);
    const Four grad = load(grad_h_in + token * hidden, at, hidden, whole), weight = load(norm_weight, at, hidden, whole);
    for (int k = 0; k < 4; ++k) sum[0] += grad.of[k] * weight.of[k] * (v.of[k] * norm);
  }
  add_up(sum, partial, products);
  const float slope = products[0] / float(hidden);
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    const Four v = load(read + token * hidden, at, hidden, whole);
    const Four grad = load(grad_h_in + token * hidden, at, hidden, whole), weight = load(norm_weight, at, hidden, whole);
    Four result;
    for (int k = 0; k < 4; ++k) result.of[k] = norm * (grad.of[k] * weight.of[k] - slope * (v.of[k] * norm));
    store(grad_read + token * hidden, at, hidden, whole, result);
  }
}

// The weight's gradient: sum over tokens of grad_h_in read s, over a chunk first. A thread has one column.
extern "C" __global__ void MHC_BOUNDS
    mhc_norm_weight_sums(const ELEMENT* read, const float* s, const ELEMENT* grad_h_in, float* q, long long tokens,
                         long long chunk, int hidden) {
  const int column = int(block_index() * THREADS + thread_index());
  const long long begin = block_row() * chunk, end = begin + chunk < tokens ? begin + chunk : tokens;
  if (column >= hidden) return;
  Staged sum;
  for (long long token = begin; token < end; ++token) {
    const long long place = token * hidden + column;
    sum.add(widen(grad_h_in[place]) * (widen(read[place]) * s[token]));
  }
  q[(long long)block_row() * hidden + column] = sum.value();
}

extern "C" __global__ void MHC_BOUNDS
    mhc_norm_weight_add(const float* q, float* grad_norm_weight, int chunks, int hidden) {
  const int column = int(block_index() * THREADS + thread_index());
  if (column >= hidden) return;
  float sum = 0.0f;
  for (int c = 0; c < chunks; ++c) sum += q[(long long)c * hidden + column];
  grad_norm_weight[column] = sum;
}

EXPORT(mhc_norm_forward)
EXPORT(mhc_norm_grad_read)
EXPORT(mhc_norm_weight_sums)
EXPORT(mhc_norm_weight_add)
