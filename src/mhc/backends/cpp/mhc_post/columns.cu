// mhc_post and its gradients on NVIDIA's sm_90 for x in bf16 and four streams: a thread has eight columns of all streams of
// a token at a time, and loads and stores 16 bytes.
//
// A launch may begin before the one before it has ended. While they wait, the first blocks bring what they will load to
// the L2 cache: the memory would have nothing to do at the end of a launch. More blocks than these do not wait.
//
// The compiler is given STREAMS (4) and HIDDEN, a multiple of eight.
#include "hopper.h"
#include "numbers.h"

constexpr int PIECES = HIDDEN / 8;  // of a row, with 16 bytes each
constexpr int LINE = 8;             // pieces that one prefetch brings

// The blocks that prefetch: about as many as an H200 runs at a time.
constexpr int FIRST_FORWARD = 7 * 132, FIRST_BACKWARD = 4 * 132;

struct Eight {
  float of[8];
};

__device__ __forceinline__ Eight widen(const uint4& piece) {
  const unsigned pairs[4] = {piece.x, piece.y, piece.z, piece.w};
  Eight eight;
  for (int k = 0; k < 4; ++k) {
    eight.of[2 * k] = float_of(pairs[k] << 16);
    eight.of[2 * k + 1] = float_of(pairs[k] & 0xffff0000);
  }
  return eight;
}

__device__ __forceinline__ uint4 narrow(const Eight& eight) {
  unsigned pairs[4];
  for (int k = 0; k < 4; ++k) pairs[k] = pair_of(eight.of[2 * k], eight.of[2 * k + 1]);
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// out_i = sum over j of h_res[i, j] x_j, plus h_post_i y. `pieces` of y are less than 2^32: x of more would be 275 GB.
extern "C" __global__ void __launch_bounds__(THREADS)
    mhc_post_columns(const uint4* x, const uint4* y, const float4* h_post, const float4* h_res, uint4* out,
                     unsigned pieces) {
  const unsigned at = unsigned(block_index()) * THREADS + thread_index(), token = at / PIECES, piece = at % PIECES;
  const long long first = (long long)token * STREAMS * PIECES + piece;
  if (block_index() < FIRST_FORWARD && at < pieces && at % LINE == 0) {
    for (int j = 0; j < STREAMS; ++j) prefetch(x + first + j * PIECES);
    prefetch(y + at);
  }
  wait_for_launch_before();
  let_next_launch_begin();
  if (at >= pieces) return;
  uint4 loaded[STREAMS];
  for (int j = 0; j < STREAMS; ++j) loaded[j] = x[first + j * PIECES];
  const uint4 loaded_y = y[at];
  const float4 writing = h_post[token];
  float4 mapping[STREAMS];
  for (int i = 0; i < STREAMS; ++i) mapping[i] = h_res[(long long)token * STREAMS + i];
  Eight rows[STREAMS];
  for (int j = 0; j < STREAMS; ++j) rows[j] = widen(loaded[j]);
  const Eight written = widen(loaded_y);
  const float weights[STREAMS] = {writing.x, writing.y, writing.z, writing.w};
  for (int i = 0; i < STREAMS; ++i) {
    Eight sum;
    for (int k = 0; k < 8; ++k) {
      sum.of[k] = weights[i] * written.of[k] + mapping[i].x * rows[0].of[k] + mapping[i].y * rows[1].of[k] +
                  mapping[i].z * rows[2].of[k] + mapping[i].w * rows[3].of[k];
    }
    out[first + i * PIECES] = narrow(sum);
  }
}

// The gradients. A block has one token; each of its threads takes every BLOCK-th piece, as often as all others if it can.
constexpr int TURNS = (PIECES + 255) / 256, BLOCK = ((PIECES + TURNS - 1) / TURNS + WARP - 1) / WARP * WARP;
constexpr int SUMS = STREAMS * STREAMS + STREAMS;  // of a token: those for h_res, and behind them those for h_post
static_assert(SUMS <= WARP, "a lane has at most one sum");

// Add each of COUNT values up over as many lanes: lane k gets the sum of value k. The values are halved again and again;
// what a lane does not keep goes to the lane that keeps it.
template <int COUNT>
__device__ __forceinline__ float sum_of_own(const float (&values)[COUNT]) {
  if constexpr (COUNT == 1) {
    return values[0];
  } else {
    constexpr int HALF = COUNT / 2;
    const bool upper = thread_index() & HALF;
    float kept[HALF];
    for (int k = 0; k < HALF; ++k) {
      kept[k] = upper ? values[k + HALF] : values[k];
      kept[k] += __shfl_xor_sync(0xffffffffu, upper ? values[k] : values[k + HALF], HALF);
    }
    return sum_of_own(kept);
  }
}

__device__ __forceinline__ float product(const Eight& a, const Eight& b) {
  float sum = a.of[0] * b.of[0];
  for (int k = 1; k < 8; ++k) sum += a.of[k] * b.of[k];
  return sum;
}

// grad_x_j = sum over i of h_res[i, j] grad_out_i;   grad_y = sum over i of h_post_i grad_out_i
// grad_h_res[i, j] = sum over columns of grad_out_i x_j;   grad_h_post_i = sum over columns of grad_out_i y
//
// One that is not asked for has no address, and the others have the same bits without it. Where ALL are, no store has a
// condition: 20.7 us in place of 21.4 for 2048 tokens of hidden 1280 on an H200.
struct Backward {
  const uint4 *x, *y;
  const float4 *h_post, *h_res;
  const uint4* grad_out;
  uint4 *grad_x, *grad_y;
  float *grad_h_post, *grad_h_res;
};

template <bool ALL>
__device__ __forceinline__ void backward(const Backward& p) {
  __shared__ float partial[BLOCK / WARP][SUMS];
  const int thread = thread_index();
  const long long token = block_index(), first = token * STREAMS * PIECES;
  if (token < FIRST_BACKWARD && thread < PIECES && thread % LINE == 0) {
    for (int i = 0; i < STREAMS; ++i) {
      prefetch(p.x + first + i * PIECES + thread);
      prefetch(p.grad_out + first + i * PIECES + thread);
    }
    prefetch(p.y + token * PIECES + thread);
  }
  wait_for_launch_before();
  let_next_launch_begin();
  float factors[STREAMS + 1][STREAMS];  // h_res[i, j] at [j][i], and behind them h_post_i
  for (int i = 0; i < STREAMS; ++i) {
    const float4 row = p.h_res[token * STREAMS + i];
    factors[0][i] = row.x, factors[1][i] = row.y, factors[2][i] = row.z, factors[3][i] = row.w;
  }
  const float4 writing = p.h_post[token];
  factors[STREAMS][0] = writing.x, factors[STREAMS][1] = writing.y;
  factors[STREAMS][2] = writing.z, factors[STREAMS][3] = writing.w;
  float sums[WARP] = {};
#pragma unroll 1
  for (int piece = thread; piece < PIECES; piece += BLOCK) {
    uint4 loaded[2 * STREAMS + 1];
    for (int i = 0; i < STREAMS; ++i) {
      loaded[i] = p.grad_out[first + i * PIECES + piece];
      loaded[STREAMS + i] = p.x[first + i * PIECES + piece];
    }
    loaded[2 * STREAMS] = p.y[token * PIECES + piece];
    Eight grads[STREAMS], rows[STREAMS + 1];  // y is the last row
    for (int i = 0; i < STREAMS; ++i) grads[i] = widen(loaded[i]);
    for (int j = 0; j <= STREAMS; ++j) rows[j] = widen(loaded[STREAMS + j]);
    for (int j = 0; j <= STREAMS; ++j) {
      Eight sum;
      for (int k = 0; k < 8; ++k) {
        sum.of[k] = 0.0f;
        for (int i = 0; i < STREAMS; ++i) sum.of[k] += factors[j][i] * grads[i].of[k];
      }
      uint4* to = j < STREAMS ? p.grad_x + first + j * PIECES : p.grad_y + token * PIECES;
      if (ALL || (j < STREAMS ? p.grad_x : p.grad_y)) to[piece] = narrow(sum);
      for (int i = 0; i < STREAMS; ++i) {
        sums[j < STREAMS ? i * STREAMS + j : STREAMS * STREAMS + i] += product(grads[i], rows[j]);
      }
    }
  }
  const float sum = sum_of_own(sums);
  if (thread % WARP < SUMS) partial[thread / WARP][thread % WARP] = sum;
  __syncthreads();
  if (thread >= SUMS) return;
  float total = partial[0][thread];
  for (int warp = 1; warp < BLOCK / WARP; ++warp) total += partial[warp][thread];
  if (thread < STREAMS * STREAMS) {
    if (ALL || p.grad_h_res) p.grad_h_res[token * STREAMS * STREAMS + thread] = total;
  } else if (ALL || p.grad_h_post) {
    p.grad_h_post[token * STREAMS + thread - STREAMS * STREAMS] = total;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) mhc_post_columns_backward(const __grid_constant__ Backward p) {
  backward<true>(p);
}

extern "C" __global__ void __launch_bounds__(BLOCK) mhc_post_columns_backward_some(const __grid_constant__ Backward p) {
  backward<false>(p);
}
