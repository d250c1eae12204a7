// The RMSNorm of mhc_single_pass, and its gradients. A block has one token; its threads share out the columns, four at a
// time.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16).
#include "sums.h"

// s = 1 / root(mean of read^2 + norm_eps);   h_in = read s norm_weight
extern "C" __global__ void MHC_BOUNDS
    mhc_norm_forward(const ELEMENT* read, const float* norm_weight, ELEMENT* h_in, float* s, int hidden,
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
