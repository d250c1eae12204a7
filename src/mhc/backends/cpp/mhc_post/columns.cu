// The forward of mhc_post on NVIDIA's sm_90 for x in bf16 and four streams: a thread has eight columns of all streams of a
// token, and loads and stores 16 bytes at a time. The launch may begin before the one before it has ended, and waits.
//
// The compiler is given STREAMS (4) and HIDDEN, a multiple of eight.
#include "hopper.h"
#include "numbers.h"

constexpr int PIECES = HIDDEN / 8;  // of a row, with 16 bytes each

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
  wait_for_launch_before();
  const unsigned at = unsigned(block_index()) * THREADS + thread_index(), token = at / PIECES, piece = at % PIECES;
  if (at >= pieces) return;
  const long long first = (long long)token * STREAMS * PIECES + piece;
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
