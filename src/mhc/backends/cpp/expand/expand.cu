// expand and its gradient. A block has one token; its threads share out the columns, four at a time.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16).
#include "numbers.h"

extern "C" __global__ void MHC_BOUNDS
    expand_forward(const ELEMENT* x, ELEMENT* out, int hidden, int whole) {
  const long long token = block_index();
  const ELEMENT* row = x + token * hidden;
  ELEMENT* rows = out + token * STREAMS * hidden;
  for (int at = 4 * thread_index(); at < hidden; at += 4 * THREADS) {
    const Four values = load(row, at, hidden, whole);
    for (int i = 0; i < STREAMS; ++i) store(rows + (long long)i * hidden, at, hidden, whole, values);
  }
}

extern "C" __global__ void MHC_BOUNDS
    expand_backward(const ELEMENT* grad_out, ELEMENT* grad_x, int hidden, int whole) {
  const long long token = block_index();
  const ELEMENT* rows = grad_out + token * STREAMS * hidden;
  for (int at = 4 * thread_index(); at < hidden; at += 4 * THREADS) {
    Four sum = {};
    for (int i = 0; i < STREAMS; ++i) {
      const Four grad = load(rows + (long long)i * hidden, at, hidden, whole);
      for (int k = 0; k < 4; ++k) sum.of[k] += grad.of[k];
    }
    store(grad_x + token * hidden, at, hidden, whole, sum);
  }
}

EXPORT(expand_forward)
EXPORT(expand_backward)
