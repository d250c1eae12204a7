// mhc_pre, mhc_head, mhc_coefficients and their gradients; mhc_head has the first STREAMS mixes alone, and no h_post and
// h_res.
//
// The compiler is given STREAMS and ELEMENT (float, bf16, fp16). v is a token's streams as one row of `width` columns.
// With GIVES, h_pre is an output. Then nothing is read, or it is read with the weights `pre` that are given; and there are
// LOGITS mixes behind those of h_pre and h_post.
#include "sums.h"

#ifndef GIVES
#define GIVES 0
#define LOGITS (STREAMS * STREAMS)
#endif

constexpr int TOKENS = 4;  // of a block: what is loaded of phi is used for each of them
constexpr int ROWS = 8;    // of phi, whose sums a thread has in registers at a time
constexpr int MOST_MIXES = 2 * STREAMS + LOGITS;

// The element of alpha that scales a mix.
__device__ __forceinline__ int gate_of(int mix) { return mix < STREAMS ? 0 : mix < 2 * STREAMS ? 1 : 2; }

// A block's tokens. A last block that is not full repeats the last token, and does not store it again.
struct Tokens {
  long long first, last;

  __device__ __forceinline__ explicit Tokens(long long tokens) : first(block_index() * TOKENS), last(tokens - 1) {}
  __device__ __forceinline__ long long at(int t) const { return first + t < last ? first + t : last; }
  __device__ __forceinline__ bool is_stored(int t) const { return first + t <= last; }
};

// Add the thread's columns of (v gamma) phi_o to sums[t][o] for ROWS rows of phi, and those of v^2 to sums[t][ROWS].
__device__ __forceinline__ void project(const ELEMENT* x, const float* phi, const float* gamma, const Tokens& block,
                                        int first, int mixes, int width, bool whole, float* sums) {
  for (int at = 4 * thread_index(); at < width; at += 4 * THREADS) {
    Four v[TOKENS];
    Four weight = {{1.0f, 1.0f, 1.0f, 1.0f}};
    if (gamma) weight = load(gamma, at, width, whole);
    for (int t = 0; t < TOKENS; ++t) {
      v[t] = load(x + block.at(t) * width, at, width, whole);
      for (int k = 0; k < 4; ++k) {
        sums[t * (ROWS + 1) + ROWS] += v[t].of[k] * v[t].of[k];
        v[t].of[k] *= weight.of[k];
      }
    }
    for (int o = 0; o < ROWS; ++o) {
      const int mix = first + o < mixes ? first + o : mixes - 1;
      const Four row = load(phi + (long long)mix * width, at, width, whole);
      for (int t = 0; t < TOKENS; ++t) {
        for (int k = 0; k < 4; ++k) sums[t * (ROWS + 1) + o] += v[t].of[k] * row.of[k];
      }
    }
  }
}

extern "C" __global__ void MHC_BOUNDS
    mhc_pre_forward(const ELEMENT* x, const float* phi, const float* alpha, const float* bias, const float* gamma,
                    const float* pre, ELEMENT* h_in, float* own_pre, float* h_post, float* h_res, float* m, float* r,
                    long long tokens, int hidden, int mixes, float norm_eps, float pre_eps, float post_scale,
                    int whole) {
  __shared__ float partial[TOKENS * (ROWS + 1)][THREADS], sums[TOKENS * (ROWS + 1)];
  __shared__ float projected[TOKENS][MOST_MIXES], h_pre[TOKENS][STREAMS];
  const int thread = thread_index(), width = STREAMS * hidden;
  const Tokens block(tokens);
  for (int first = 0; first < mixes; first += ROWS) {
    float sum[TOKENS * (ROWS + 1)] = {};
    project(x, phi, gamma, block, first, mixes, width, whole, sum);
    add_up(sum, partial, sums);
    const int t = thread / ROWS, o = thread % ROWS;
    if (t < TOKENS && first + o < mixes) projected[t][first + o] = sums[t * (ROWS + 1) + o];
  }
  __syncthreads();
  for (int t = 0; t < TOKENS; ++t) {
    const long long token = block.at(t);
    const float norm = inverse_root(sums[t * (ROWS + 1) + ROWS] / float(width) + norm_eps);
    if (thread == 0 && block.is_stored(t)) r[token] = norm;
    for (int o = thread; o < mixes; o += THREADS) {
      const float mix = projected[t][o] * norm;
      const float z = alpha[gate_of(o)] * mix + bias[o];
      if (o < STREAMS) h_pre[t][o] = sigmoid(z) + pre_eps;
      if (!block.is_stored(t)) continue;
      if (GIVES && o < STREAMS) {
        own_pre[token * STREAMS + o] = h_pre[t][o];
        if (pre) h_pre[t][o] = pre[token * STREAMS + o];
      }
      m[token * mixes + o] = mix;
      if (o >= 2 * STREAMS) h_res[token * LOGITS + o - 2 * STREAMS] = z;
      else if (o >= STREAMS) h_post[token * STREAMS + o - STREAMS] = post_scale * sigmoid(z);
    }
  }
  if (GIVES && !pre) return;
  __syncthreads();
  for (int t = 0; t < TOKENS && block.is_stored(t); ++t) {
    for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
      Four sum = {};
      for (int i = 0; i < STREAMS; ++i) {
        const Four v = load(x + (block.at(t) * STREAMS + i) * hidden, at, hidden, whole);
        for (int k = 0; k < 4; ++k) sum.of[k] += h_pre[t][i] * v.of[k];
      }
      store(h_in + block.at(t) * hidden, at, hidden, whole, sum);
    }
  }
}

// The gradients: first what the others need of each token, a block for each token.
//
//   dz     the gradient of alpha m + bias, of each mix
//   f      the gradient of the projection m / r, which is alpha dz r
//   h_pre  as in the forward: what was read with
//   slope  what the root mean square adds to the gradient of v, as a factor of v: r^2 / width times sum of alpha dz m
extern "C" __global__ void MHC_BOUNDS
    mhc_pre_factors(const ELEMENT* x, const float* alpha, const float* bias, const float* m, const float* r,
                    const float* pre, const ELEMENT* grad_h_in, const float* grad_h_pre, const float* grad_h_post,
                    const float* grad_h_res, float* grad_pre, float* dz, float* f, float* h_pre, float* slope,
                    int hidden, int mixes, float pre_eps, float post_scale, int whole) {
  __shared__ float partial[STREAMS][THREADS], to_weights[STREAMS];
  __shared__ float products[1][THREADS], product[1];
  const int thread = thread_index(), width = STREAMS * hidden;
  const long long token = block_index();
  if (!GIVES || pre) {
    float sum[STREAMS] = {};
    for (int at = 4 * thread; at < hidden; at += 4 * THREADS) {
      const Four grad = load(grad_h_in + token * hidden, at, hidden, whole);
      for (int i = 0; i < STREAMS; ++i) {
        const Four v = load(x + (token * STREAMS + i) * hidden, at, hidden, whole);
        for (int k = 0; k < 4; ++k) sum[i] += grad.of[k] * v.of[k];
      }
    }
    add_up(sum, partial, to_weights);
    if (GIVES && grad_pre && thread < STREAMS) grad_pre[token * STREAMS + thread] = to_weights[thread];
  }
  float own[1] = {};
  for (int o = thread; o < mixes; o += THREADS) {
    const float gate = alpha[gate_of(o)], mix = m[token * mixes + o];
    float grad;
    if (o < 2 * STREAMS) {
      const float s = sigmoid(gate * mix + bias[o]);
      if (o < STREAMS) h_pre[token * STREAMS + o] = GIVES && pre ? pre[token * STREAMS + o] : s + pre_eps;
      const float above = o >= STREAMS ? post_scale * grad_h_post[token * STREAMS + o - STREAMS]
                          : GIVES      ? grad_h_pre[token * STREAMS + o]
                                       : to_weights[o];
      grad = above * s * (1.0f - s);
    } else {
      grad = grad_h_res[token * LOGITS + o - 2 * STREAMS];
    }
    dz[token * mixes + o] = grad;
    f[token * mixes + o] = gate * grad * r[token];
    own[0] += gate * grad * mix;
  }
  add_up(own, products, product);
  if (thread == 0) slope[token] = product[0] * r[token] * r[token] / float(width);
}

// grad_x = gamma times (sum over o of f_o phi_o) - slope v + h_pre grad_h_in; a block has TOKENS tokens and 4 * THREADS
// columns. With GIVES, grad_h_in is null where nothing was read, and `added` is null or a gradient to add.
extern "C" __global__ void MHC_BOUNDS
    mhc_pre_grad_x(const ELEMENT* x, const float* phi, const float* gamma, const ELEMENT* grad_h_in,
                   const ELEMENT* added, const float* f, const float* h_pre, const float* slope, ELEMENT* grad_x,
                   long long tokens, int hidden, int mixes, int whole) {
  __shared__ float factors[TOKENS][MOST_MIXES];
  const int thread = thread_index(), width = STREAMS * hidden;
  const int at = 4 * (block_row() * THREADS + thread);
  const Tokens block(tokens);
  for (int o = thread; o < TOKENS * mixes; o += THREADS) {
    factors[o / mixes][o % mixes] = f[block.at(o / mixes) * mixes + o % mixes];
  }
  __syncthreads();
  if (at >= width) return;
  Four sums[TOKENS] = {};
  for (int o = 0; o < mixes; ++o) {
    const Four row = load(phi + (long long)o * width, at, width, whole);
    for (int t = 0; t < TOKENS; ++t) {
      for (int k = 0; k < 4; ++k) sums[t].of[k] += factors[t][o] * row.of[k];
    }
  }
  Four weight = {{1.0f, 1.0f, 1.0f, 1.0f}};
  if (gamma) weight = load(gamma, at, width, whole);
  for (int t = 0; t < TOKENS && block.is_stored(t); ++t) {
    const long long token = block.at(t);
    const Four v = load(x + token * width, at, width, whole);
    for (int k = 0; k < 4 && at + k < width; ++k) {
      const int stream = (at + k) / hidden, column = (at + k) % hidden;
      float read = 0.0f;
      if (!GIVES || grad_h_in) read = h_pre[token * STREAMS + stream] * widen(grad_h_in[token * hidden + column]);
      if (GIVES && added) read += widen(added[token * width + at + k]);
      sums[t].of[k] = weight.of[k] * sums[t].of[k] - slope[token] * v.of[k] + read;
    }
    store(grad_x + token * width, at, width, whole, sums[t]);
  }
}

// The sums over tokens that the gradients of phi and gamma need: q[chunk][o] = sum over the chunk's tokens of f_o v. A
// block has 4 * THREADS columns, one chunk and ROWS rows; STAGE tokens are added up before they join the others.
extern "C" __global__ void MHC_BOUNDS
    mhc_pre_sums(const ELEMENT* x, const float* f, float* q, long long tokens, long long chunk, int hidden, int mixes,
                 int whole) {
  const int width = STREAMS * hidden, at = 4 * int(block_index() * THREADS + thread_index());
  const int first = block_layer() * ROWS;
  const long long begin = block_row() * chunk, end = begin + chunk < tokens ? begin + chunk : tokens;
  if (at >= width) return;
  Four totals[ROWS] = {};
  for (long long staged = begin; staged < end; staged += STAGE) {
    Four stage[ROWS] = {};
    for (long long token = staged; token < staged + STAGE && token < end; ++token) {
      const Four v = load(x + token * width, at, width, whole);
      for (int o = 0; o < ROWS; ++o) {
        const float factor = f[token * mixes + (first + o < mixes ? first + o : mixes - 1)];
        for (int k = 0; k < 4; ++k) stage[o].of[k] += factor * v.of[k];
      }
    }
    for (int o = 0; o < ROWS; ++o) {
      for (int k = 0; k < 4; ++k) totals[o].of[k] += stage[o].of[k];
    }
  }
  for (int o = 0; o < ROWS && first + o < mixes; ++o) {
    store(q + ((long long)block_row() * mixes + first + o) * width, at, width, whole, totals[o]);
  }
}

// Add the chunks up: grad_phi = q gamma, grad_gamma = sum over o of phi_o q_o. A thread has one column.
extern "C" __global__ void MHC_BOUNDS
    mhc_pre_grad_phi_gamma(const float* q, const float* phi, const float* gamma, float* grad_phi, float* grad_gamma,
                           int chunks, int hidden, int mixes) {
  const int width = STREAMS * hidden, column = int(block_index() * THREADS + thread_index());
  if (column >= width) return;
  const float weight = gamma ? gamma[column] : 1.0f;
  float over_mixes = 0.0f;
  for (int o = 0; o < mixes; ++o) {
    float sum = 0.0f;
    for (int c = 0; c < chunks; ++c) sum += q[((long long)c * mixes + o) * width + column];
    if (grad_phi) grad_phi[(long long)o * width + column] = sum * weight;
    over_mixes += sum * phi[(long long)o * width + column];
  }
  if (grad_gamma) grad_gamma[column] = over_mixes;
}

// grad_bias_o = sum over tokens of dz_o, in the first blocks; grad_alpha of each gate = sum over tokens and its mixes of
// dz m, in the blocks after them.
extern "C" __global__ void MHC_BOUNDS
    mhc_pre_grad_alpha_bias(const float* dz, const float* m, float* grad_alpha, float* grad_bias, long long tokens,
                            int mixes) {
  __shared__ float partial[1][THREADS], sum[1];
  const int o = int(block_index()), gate = o - mixes;
  const int begin = gate < 0 ? o : gate * STREAMS;
  const int end = gate < 0 ? o + 1 : gate == 2 ? mixes : (gate + 1) * STREAMS;
  Staged staged;
  for (long long token = thread_index(); token < tokens; token += THREADS) {
    float term = 0.0f;
    for (int i = begin; i < end; ++i) term += dz[token * mixes + i] * (gate < 0 ? 1.0f : m[token * mixes + i]);
    staged.add(term);
  }
  const float own[1] = {staged.value()};
  add_up(own, partial, sum);
  if (thread_index() > 0) return;
  if (gate < 0 && grad_bias) grad_bias[o] = sum[0];
  if (gate >= 0 && grad_alpha) grad_alpha[gate] = sum[0];
}

EXPORT(mhc_pre_forward)
EXPORT(mhc_pre_factors)
EXPORT(mhc_pre_grad_x)
EXPORT(mhc_pre_sums)
EXPORT(mhc_pre_grad_phi_gamma)
EXPORT(mhc_pre_grad_alpha_bias)
