// mhc_post and its gradients. A block has one token; its threads share out the columns, four at a time.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16).
#include "sums.h"

// out_i = sum over j of h_res[i, j] x_j, plus h_post_i y
extern "C" __global__ void MHC_BOUNDS
    mhc_post_forward(const ELEMENT* x, const ELEMENT* y, const float* h_post, const float* h_res, ELEMENT* out,
                     int hidden, int whole) {
  __shared__ float mapping[STREAMS][STREAMS], writing[STREAMS];
  const long long token = block_index();
  const int thread = thread_index();
  const ELEMENT* rows = x + token * STREAMS * hidden;
  for (int o = thread; o < STREAMS * STREAMS; o += THREADS) {
    mapping[o / STREAMS][o % STREAMS] = h_res[token * STREAMS * STREAMS + o];
  }
  if (thread < STREAMS) writing[thread] = h_post[token * STREAMS + thread];
  __syncthreads();
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    Four v[STREAMS];
    for (int j = 0; j < STREAMS; ++j) v[j] = load(rows + (long long)j * hidden, at, hidden, whole);
    const Four written = load(y + token * hidden, at, hidden, whole);
    for (int i = 0; i < STREAMS; ++i) {
      Four sum;
      for (int k = 0; k < 4; ++k) {
        sum.of[k] = writing[i] * written.of[k];
        for (int j = 0; j < STREAMS; ++j) sum.of[k] += mapping[i][j] * v[j].of[k];
      }
      store(out + (token * STREAMS + i) * hidden, at, hidden, whole, sum);
    }
  }
}

// grad_x_j = sum over i of h_res[i, j] grad_out_i;   grad_y = sum over i of h_post_i grad_out_i
extern "C" __global__ void MHC_BOUNDS
    mhc_post_grad_rows(const ELEMENT* grad_out, const float* h_post, const float* h_res, ELEMENT* grad_x,
                       ELEMENT* grad_y, int hidden, int whole) {
  __shared__ float mapping[STREAMS][STREAMS], writing[STREAMS];
  const long long token = block_index();
  const int thread = thread_index();
  for (int o = thread; o < STREAMS * STREAMS; o += THREADS) {
    mapping[o / STREAMS][o % STREAMS] = h_res[token * STREAMS * STREAMS + o];
  }
  if (thread < STREAMS) writing[thread] = h_post[token * STREAMS + thread];
  __syncthreads();
  for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
    Four grad[STREAMS];
    for (int i = 0; i < STREAMS; ++i) {
      grad[i] = load(grad_out + (token * STREAMS + i) * hidden, at, hidden, whole);
    }
    if (grad_x) {
      for (int j = 0; j < STREAMS; ++j) {
        Four sum = {};
        for (int k = 0; k < 4; ++k) {
          for (int i = 0; i < STREAMS; ++i) sum.of[k] += mapping[i][j] * grad[i].of[k];
        }
        store(grad_x + (token * STREAMS + j) * hidden, at, hidden, whole, sum);
      }
    }
    if (grad_y) {
      Four sum = {};
      for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < STREAMS; ++i) sum.of[k] += writing[i] * grad[i].of[k];
      }
      store(grad_y + token * hidden, at, hidden, whole, sum);
    }
  }
}

// grad_h_res[i, j] = sum over columns of grad_out_i x_j;   grad_h_post_i = sum over columns of grad_out_i y
//
// A thread has the sums of ROWS streams of grad_out at a time, with all of x and y: as many as registers hold.
constexpr int ROWS = 40 / (STREAMS + 1) < STREAMS ? 40 / (STREAMS + 1) : STREAMS;

extern "C" __global__ void MHC_BOUNDS
    mhc_post_grad_coefficients(const ELEMENT* grad_out, const ELEMENT* x, const ELEMENT* y, float* grad_h_post,
                               float* grad_h_res, int hidden, int whole) {
  __shared__ float partial[ROWS * (STREAMS + 1)][THREADS], sums[ROWS * (STREAMS + 1)];
  const long long token = block_index();
  const int thread = thread_index();
  for (int first = 0; first < STREAMS; first += ROWS) {
    float sum[ROWS * (STREAMS + 1)] = {};
    for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
      Four grad[ROWS];
      for (int i = 0; i < ROWS; ++i) {
        const int stream = first + i < STREAMS ? first + i : STREAMS - 1;
        grad[i] = load(grad_out + (token * STREAMS + stream) * hidden, at, hidden, whole);
      }
      for (int j = 0; j <= STREAMS; ++j) {
        const ELEMENT* row = j < STREAMS ? x + (token * STREAMS + j) * hidden : y + token * hidden;
        const Four v = load(row, at, hidden, whole);
        for (int i = 0; i < ROWS; ++i) {
          for (int k = 0; k < 4; ++k) sum[i * (STREAMS + 1) + j] += grad[i].of[k] * v.of[k];
        }
      }
    }
    add_up(sum, partial, sums);
    if (thread < ROWS * (STREAMS + 1)) {
      const int i = first + thread / (STREAMS + 1), j = thread % (STREAMS + 1);
      if (i < STREAMS && j < STREAMS && grad_h_res) {
        grad_h_res[(token * STREAMS + i) * STREAMS + j] = sums[thread];
      }
      if (i < STREAMS && j == STREAMS && grad_h_post) grad_h_post[token * STREAMS + i] = sums[thread];
    }
  }
}

EXPORT(mhc_post_forward)
EXPORT(mhc_post_grad_rows)
EXPORT(mhc_post_grad_coefficients)
