// mhc_read and its gradients. A block has one token; its threads share out the columns, four at a time.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16).
#include "sums.h"

// h_in = sum over i of pre_i x_i
extern "C" __global__ void MHC_BOUNDS
    mhc_read_forward(const ELEMENT* x, const float* pre, ELEMENT* h_in, int hidden, int whole) {
  const long long token = block_index();
  for (int at = 4 * thread_index(); at < hidden; at += 4 * THREADS) {
    Four sum = {};
    for (int i = 0; i < STREAMS; ++i) {
      const Four v = load(x + (token * STREAMS + i) * hidden, at, hidden, whole);
      for (int k = 0; k < 4; ++k) sum.of[k] += pre[token * STREAMS + i] * v.of[k];
    }
    store(h_in + token * hidden, at, hidden, whole, sum);
  }
}

// grad_x_i = pre_i grad_h_in;   grad_pre_i = sum over columns of grad_h_in x_i
extern "C" __global__ void MHC_BOUNDS
    mhc_read_backward(const ELEMENT* x, const float* pre, const ELEMENT* grad_h_in, ELEMENT* grad_x, float* grad_pre,
                      int hidden, int whole) {
  __shared__ float partial[STREAMS][THREADS], sums[STREAMS];
  const long long token = block_index();
  const int thread = thread_index();
  float sum[STREAMS] = {};
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    const Four grad = load(grad_h_in + token * hidden, at, hidden, whole);
    for (int i = 0; i < STREAMS; ++i) {
      const long long row = (token * STREAMS + i) * hidden;
      if (grad_pre) {
        const Four v = load(x + row, at, hidden, whole);
        for (int k = 0; k < 4; ++k) sum[i] += grad.of[k] * v.of[k];
      }
      if (grad_x) {
        Four part;
        for (int k = 0; k < 4; ++k) part.of[k] = pre[token * STREAMS + i] * grad.of[k];
        store(grad_x + row, at, hidden, whole, part);
      }
    }
  }
  if (!grad_pre) return;
  add_up(sum, partial, sums);
  if (thread < STREAMS) grad_pre[token * STREAMS + thread] = sums[thread];
}

EXPORT(mhc_read_forward)
EXPORT(mhc_read_backward)
