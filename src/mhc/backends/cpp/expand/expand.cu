// expand and its gradient. A block has one token; its threads share out the columns: four at a time, or one at a time
// where rows do not begin at multiples of four elements, so that neighbours are read together.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16).
#include "numbers.h"

extern "C" __global__ void MHC_BOUNDS
    expand_forward(const ELEMENT* x, ELEMENT* out, int hidden, int whole) {
  const long long token = block_index();
  const ELEMENT* row = x + token * hidden;
  ELEMENT* rows = out + token * STREAMS * hidden;
  const int width = whole ? 4 : 1;
  for (int at = width * thread_index(); at < hidden; at += width * THREADS) {
    const Four values = load(row, at, at + width, whole);
    for (int i = 0; i < STREAMS; ++i) store(rows + (long long)i * hidden, at, at + width, whole, values);
  }
}

extern "C" __global__ void MHC_BOUNDS
    expand_backward(const ELEMENT* grad_out, ELEMENT* grad_x, int hidden, int whole) {
  const long long token = block_index();
  const ELEMENT* rows = grad_out + token * STREAMS * hidden;
  const int width = whole ? 4 : 1;
  for (int at = width * thread_index(); at < hidden; at += width * THREADS) {
    Four sum = {};
    for (int i = 0; i < STREAMS; ++i) {
      const Four grad = load(rows + (long long)i * hidden, at, at + width, whole);
      for (int k = 0; k < 4; ++k) sum.of[k] += grad.of[k];
    }
    store(grad_x + token * hidden, at, at + width, whole, sum);
  }
}

EXPORT(expand_forward)
EXPORT(expand_backward)
