// The backward of mhc_pre on NVIDIA's sm_90 for x in bf16 and four streams. x is read from memory once: a cluster keeps
// its tokens of x in shared memory until it has found their coefficients. mhc_pre.cu has the equations.
//
// A cluster takes TOKENS tokens at a time, a step. Each of its blocks has COLUMNS columns of each stream, and one
// multiprocessor. A warp has WIDE columns of one stream, which are a box: it copies the box to shared memory, has its
// part of phi and its sums for the gradient of phi in registers, and writes the gradient of x over x. For a step
//
//   dots          warp k multiplies token k of x with the gradient of h_in, and sends the four sums to the token's block;
//   coefficients  one warp for each token of a block adds up what all blocks sent, makes the coefficients of the token, and
//                 sends them to all blocks; warps take turns, or where there are more than tokens, those without one do;
//   products      each warp multiplies the coefficients with its x and its phi by tensor cores.
//
// In turn i a warp makes the dots of step i + 2, and the products of step i; some make the coefficients of i + 1.
//
// The compiler is given STREAMS (4), HIDDEN, BLOCKS (of a cluster), WIDE, STAGES (steps in shared memory), ADDING (whether a
// gradient of x is to be added), and SHARED_BYTES. In a narrow layer a cluster has fewer blocks: then a step is not a few
// columns of many blocks that wait for each other, and a block has several tokens.
#include "hopper.h"
#include "numbers.h"
#include "sums.h"

constexpr int TOKENS = 16, OWNED = TOKENS / BLOCKS, COLUMNS = HIDDEN / BLOCKS, SPANS = COLUMNS / WIDE, STEPS = WIDE / 16;
constexpr int WARPS = STREAMS * SPANS, ALL = WARPS * WARP;
constexpr int MIXES = STREAMS * (STREAMS + 2), TILES = MIXES / 8, WIDTH = STREAMS * HIDDEN;
static_assert(MIXES == 24 && TOKENS == OWNED * BLOCKS && WARPS >= TOKENS, "each block and some warps have tokens");
static_assert(COLUMNS == SPANS * WIDE && COLUMNS <= 8 * WARP, "a lane has eight columns of a dot product");

// A box has TOKENS rows. The copy engine swaps the pieces of a row, of 16 bytes each, so that eight rows of a piece are in
// different banks: `place` says where they are.
constexpr int ROW_BYTES = 2 * WIDE, ROW_PIECES = WIDE / 8, BOX_BYTES = TOKENS * ROW_BYTES, X_BYTES = WARPS * BOX_BYTES;
constexpr int STAGE_BYTES = X_BYTES + SPANS * BOX_BYTES;  // the gradient of h_in is behind x

// What a block makes of its token, as it sends it: the coefficients in three bf16 parts, the largest first, which add up
// to the fp32 number; in fp16 times `scale`, a power of two; h_pre; slope; and the inverse of `scale`. Eight lines begin
// in different banks. PIECES of 16 bytes are sent.
constexpr int PARTS = 3, HALVES_AT = 16 * TILES * PARTS, WEIGHTS_AT = HALVES_AT + 16 * TILES;
constexpr int SLOPE_AT = WEIGHTS_AT + 4 * STREAMS, SCALE_AT = SLOPE_AT + 4, PIECES = SLOPE_AT / 16 + 1, LINE_BYTES = 240;
constexpr int KNOWN_BYTES = 16 * PIECES * TOKENS, SENT_BYTES = 4 * STREAMS * BLOCKS, TOPS_BYTES = 4 * MIXES * BLOCKS;

static_assert(ROW_BYTES == 128 || ROW_BYTES == 64, "one_read.py lets pieces be swapped for these");

// Steps whose dots and coefficients are kept. A warp sends dots of step i when it has made the products of step i - 3, so
// the block that they go to has used those of i - 3. Coefficients of step i come from dots of all blocks, and a block has
// those when all its warps have copied their boxes of step i: so all have made the products of step i - STAGES.
constexpr int SENT_SLOTS = 3, SLOTS = STAGES;

// Where few steps fit, a box is needed sooner after its copy.
constexpr bool COPIES_FIRST = STAGES < 5;

// Warps that make coefficients of neighbouring steps can do so at the same time. The one of step i - 4 is ready when the one
// of step i begins, as dots of step i come after products of step i - 3.
constexpr int ADDERS = 4;

// A sum, and what its roundings lost. Terms of both signs can leave little of large sums: nothing may be lost then.
struct Exact {
  float sum, lost;

  __device__ __forceinline__ void add(float term) {
    const float next = sum + term, added = next - sum;
    lost += (sum - (next - added)) + (term - added);
    sum = next;
  }
  __device__ __forceinline__ void add(const Exact& other) {
    add(other.sum);
    lost += other.lost;
  }
  // Of an infinite sum nothing is lost that is a number.
  __device__ __forceinline__ float value() const { return lost == lost ? sum + lost : sum; }
};

// The sums over tokens of dz and of dz m, of each mix.
struct Totals {
  Exact bias[MIXES], alpha[MIXES];
};

struct Shared {
  unsigned char stages[STAGES][STAGE_BYTES];
  unsigned char added[ADDING ? WARPS : 1][ADDING ? BOX_BYTES : 16];
  unsigned char lines[SLOTS][TOKENS][LINE_BYTES];
  float sums[SENT_SLOTS][OWNED][BLOCKS * STREAMS];
  Totals totals[ADDERS][OWNED];
  unsigned tops[BLOCKS][MIXES];
  unsigned top[MIXES];
  int exponent[MIXES];
  unsigned long long full[STAGES], read[STAGES][SPANS], known[SLOTS], sent[SENT_SLOTS][OWNED], adding[WARPS], topped;
};

static_assert(sizeof(Shared) <= SHARED_BYTES, "one_read.py knows how large it is");

struct Problem {
  const float *phi, *alpha, *bias, *gamma, *m, *r, *grad_h_post, *grad_h_res;
  float* chunks;  // the sums of each cluster for the gradient of phi, and behind them the Totals of each block
  int tokens, stores_x;
  float pre_eps, post_scale;
};

// What a block does: step i of its cluster is step `at(i)` of all.
struct Steps {
  int rank, cluster, clusters, count;

  __device__ __forceinline__ explicit Steps(const Problem& p) {
    rank = int(block_index()) % BLOCKS;
    cluster = int(block_index()) / BLOCKS;
    clusters = grid_size() / BLOCKS;
    count = ((p.tokens + TOKENS - 1) / TOKENS - cluster + clusters - 1) / clusters;
  }
  __device__ __forceinline__ int token(int i) const { return (cluster + i * clusters) * TOKENS; }
  // The place in a step of the k-th token that the block makes the coefficients of.
  __device__ __forceinline__ int own(int k) const { return rank + k * BLOCKS; }
};

// The columns of a warp.
struct Box {
  int warp, stream, span;

  __device__ __forceinline__ explicit Box(int own) : warp(own), stream(own % STREAMS), span(own / STREAMS) {}
  __device__ __forceinline__ int column(const Steps& steps) const { return steps.rank * COLUMNS + span * WIDE; }
};

// It is asked for anew each time: what a compiler finds before the loop over the steps, it would keep in registers.
__device__ __forceinline__ unsigned lane_index() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Where a piece of a token is in a box.
__device__ __forceinline__ unsigned place(unsigned token, unsigned piece) {
  return token * ROW_BYTES + 16 * (piece ^ token * ROW_BYTES / 128 % ROW_PIECES);
}

__device__ __forceinline__ float low_of(unsigned pair) { return float_of(pair << 16); }
__device__ __forceinline__ float high_of(unsigned pair) { return float_of(pair & 0xffff0000); }

// 2^power for powers from -126 to 127.
__device__ __forceinline__ float power_of_two(int power) { return float_of(unsigned(power + 127) << 23); }

// value times 2^power, whatever the power is: its two factors are normal numbers.
__device__ __forceinline__ float scaled(float value, int power) {
  const int half = power / 2;
  return value * power_of_two(half) * power_of_two(power - half);
}

__device__ __forceinline__ int exponent_of(float value) { return int(bits_of(value) >> 23 & 0xff) - 127; }

// One lane copies the warp's box of a step, and for the first stream the gradient of h_in of the same columns.
__device__ __forceinline__ void copy(const TensorMap* x, const TensorMap* grad, Shared& s, const Steps& steps,
                                     const Box& box, int i) {
  const int stage = i % STAGES;
  const unsigned full = shared_address(&s.full[stage]), to = shared_address(s.stages[stage]);
  const bool both = box.stream == 0;
  if (both && i >= STAGES) wait(shared_address(&s.read[stage][box.span]), (i / STAGES - 1) % 2);
  arrive_and_expect(full, both ? 2 * BOX_BYTES : BOX_BYTES);
  copy_box<false>(to + box.warp * BOX_BYTES, x, box.column(steps), box.stream, steps.token(i), full);
  if (both) copy_box<false>(to + X_BYTES + box.span * BOX_BYTES, grad, box.column(steps), 0, steps.token(i), full);
}

// Copy the last box that has a place in turn i. The box of step i - 1 is stored from there: the later in a turn this is
// asked for, the shorter one lane waits until that is read.
__device__ __forceinline__ void copy_next(bool is_first_lane, const TensorMap* x, const TensorMap* grad, Shared& s,
                                          const Steps& steps, const Box& box, int i) {
  if (is_first_lane && i - 1 + STAGES < steps.count) {
    wait_until_read();
    copy(x, grad, s, steps, box, i - 1 + STAGES);
  }
  __syncwarp();
}

__device__ __forceinline__ void copy_added(const TensorMap* added, Shared& s, const Steps& steps, const Box& box, int i) {
  const unsigned adding = shared_address(&s.adding[box.warp]);
  arrive_and_expect(adding, BOX_BYTES);
  copy_box<false>(shared_address(s.added[ADDING ? box.warp : 0]), added, box.column(steps), box.stream, steps.token(i), adding);
}

// The first warps have a token each.
__device__ __forceinline__ bool has_dots(const Box& box) { return WARPS == TOKENS || box.warp < TOKENS; }

// Warps take turns with the coefficients: those without a token where there are some. A warp makes them for the block's
// token number `turn` of a step, if that is one.
constexpr unsigned MAKERS = WARPS == TOKENS ? WARPS : WARPS - TOKENS;
static_assert(MAKERS >= OWNED && (MAKERS & (MAKERS - 1)) == 0, "a warp has one token of a step at most");
__device__ __forceinline__ int turn(const Box& box, int i) {
  return unsigned(box.warp) < WARPS - MAKERS ? OWNED : unsigned(box.warp - i * OWNED) % MAKERS;
}

// The warp's token times the gradient of h_in, of the block's columns: a lane has eight of them.
__device__ __forceinline__ void dots(Shared& s, const Steps& steps, const Box& box, int i) {
  const int stage = i % STAGES, slot = i % SENT_SLOTS, token = box.warp;
  const unsigned lane = lane_index();
  const bool has_columns = COLUMNS == 8 * WARP || lane < COLUMNS / 8;
  const unsigned span = has_columns ? lane / ROW_PIECES : 0, own = place(token, lane % ROW_PIECES);
  const unsigned char* from = s.stages[stage] + span * STREAMS * BOX_BYTES + own;
  wait(shared_address(&s.full[stage]), i / STAGES % 2);
  const uint4 four = *reinterpret_cast<const uint4*>(s.stages[stage] + X_BYTES + span * BOX_BYTES + own);
  const unsigned grad[4] = {four.x, four.y, four.z, four.w};
  float sums[STREAMS];
#pragma unroll
  for (int n = 0; n < STREAMS; ++n) {
    const uint4 x = *reinterpret_cast<const uint4*>(from + n * BOX_BYTES);
    const unsigned pairs[4] = {x.x, x.y, x.z, x.w};
    float low = 0.0f, high = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      low += low_of(pairs[k]) * low_of(grad[k]);
      high += high_of(pairs[k]) * high_of(grad[k]);
    }
    sums[n] = has_columns ? low + high : 0.0f;
  }
  // Each lane keeps a half of its sums, twice: then it has one of them.
  const bool upper = lane & 16, odd = lane & 8;
  const float first = (upper ? sums[2] : sums[0]) + MHC_SHUFFLE_XOR(upper ? sums[0] : sums[2], 16);
  const float second = (upper ? sums[3] : sums[1]) + MHC_SHUFFLE_XOR(upper ? sums[1] : sums[3], 16);
  const float half = (odd ? second : first) + MHC_SHUFFLE_XOR(odd ? first : second, 8);
  const float sum = sum_of_lanes<8>(half);
  if (lane % 8 == 0) {
    const int own = token / BLOCKS, owner = token % BLOCKS;
    const unsigned to = shared_address(&s.sums[slot][own][steps.rank * STREAMS + lane / 8]);
    send(address_in(to, owner), address_in(shared_address(&s.sent[slot][own]), owner), sum);
  }
}

// What the lane of a mix reads of a token; zeros beyond the last token, and for lanes without a mix.
struct Given {
  float mix, above, r, gate, bias;

  __device__ __forceinline__ Given(const Problem& p, int token) {
    const unsigned o = lane_index();
    const bool is_given = token < p.tokens && o < MIXES;
    const long long at = token;
    mix = is_given ? p.m[at * MIXES + o] : 0.0f;
    r = is_given ? p.r[at] : 0.0f;
    gate = o < MIXES ? p.alpha[o < STREAMS ? 0 : o < 2 * STREAMS ? 1 : 2] : 0.0f;
    bias = o < MIXES ? p.bias[o] : 0.0f;
    above = 0.0f;
    if (is_given && o >= 2 * STREAMS) above = p.grad_h_res[at * STREAMS * STREAMS + o - 2 * STREAMS];
    else if (is_given && o >= STREAMS) above = p.post_scale * p.grad_h_post[at * STREAMS + o - STREAMS];
  }
};

// The coefficients of the block's k-th token of a step, of which a lane has one mix.
__device__ __forceinline__ void coefficients(const Problem& p, Shared& s, const Steps& steps, int i, int k) {
  const int slot = i % SENT_SLOTS;
  const unsigned o = lane_index(), rank = o % BLOCKS;
  const unsigned sent = shared_address(&s.sent[slot][k]);
  const Given given(p, steps.token(i) + steps.own(k));
  wait(sent, i / SENT_SLOTS % 2);
  const float* sums = s.sums[slot][k];
  float dot = o < BLOCKS * STREAMS ? sums[o] : 0.0f;
  if constexpr (BLOCKS * STREAMS > WARP) dot += sums[o + WARP];
  __syncwarp();
  if (o == 0) arrive_and_expect(sent, SENT_BYTES);  // for what comes to this place next
  for (int apart = STREAMS; apart < WARP; apart *= 2) dot += MHC_SHUFFLE_XOR(dot, apart);
  const bool is_inside = steps.token(i) + steps.own(k) < p.tokens;
  const float weight = sigmoid(given.gate * given.mix + given.bias);
  const float above = o < STREAMS ? dot : given.above;
  float dz = o < 2 * STREAMS ? above * weight * (1.0f - weight) : above;
  if (!is_inside || o >= MIXES) dz = 0.0f;
  if (o < MIXES) {
    Totals& totals = s.totals[i % ADDERS][k];
    totals.bias[o].add(dz);
    totals.alpha[o].add({dz * given.mix, fmaf(dz, given.mix, -(dz * given.mix))});
  }
  const float grad = given.gate * dz, c = grad * given.r;
  const float r = __shfl_sync(0xffffffffu, given.r, 0);
  const float slope = -sum_of_lanes<WARP>(grad * given.mix) * (r * r) / float(WIDTH);
  // phi is in fp16 times 2^exponent, and c times 2^-exponent and another power of two for all mixes of the token.
  const int exponent = o < MIXES ? s.exponent[o] : 0;
  const int top = max(-112, largest_of_warp(o < MIXES ? exponent_of(c) - exponent : -256));
  unsigned char* line = s.lines[i % SLOTS][steps.own(k)];
  if (o < MIXES) {
    unsigned short* to = reinterpret_cast<unsigned short*>(line) + o;
    float rest = c;
    for (int part = 0; part < PARTS; ++part) {
      to[part * MIXES] = (unsigned short)(bits_of(rest) >> 16);
      rest -= high_of(bits_of(rest));
    }
    fp16 half;
    narrow(scaled(c, 14 - top - exponent), half);
    to[PARTS * MIXES] = half.bits;
  }
  if (o < STREAMS) reinterpret_cast<float*>(line + WEIGHTS_AT)[o] = weight + p.pre_eps;
  if (o == STREAMS) *reinterpret_cast<float*>(line + SLOPE_AT) = slope;
  if (o == STREAMS + 1) *reinterpret_cast<float*>(line + SCALE_AT) = power_of_two(min(top - 14, 127));
  __syncwarp();
  const unsigned to = address_in(shared_address(line), rank);
  const unsigned known = address_in(shared_address(&s.known[i % SLOTS]), rank);
#pragma unroll
  for (int piece = o / BLOCKS; piece < PIECES; piece += WARP / BLOCKS) {
    send(to + 16 * piece, known, *reinterpret_cast<const float4*>(line + 16 * piece));
  }
}

// What a warp has in registers all the time: phi (times gamma) in fp16, and the sums of coefficients times x.
struct Kept {
  unsigned phi[2 * STEPS][TILES];
  float sums[STEPS][TILES][4] = {};
};

// sums += coefficients times x. A tensor core cuts what it adds, always towards zero: so the sums of TOKENS tokens begin at
// zero.
__device__ __forceinline__ void multiply_x(Kept& kept, unsigned line, unsigned x, unsigned at) {
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    unsigned c[PARTS][2];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) load_transposed(c[part], line + 16 * (part * TILES + tile));
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      unsigned a[4];
      load_transposed(a, x + (at ^ 32 * step));
      float sum[4] = {};
#pragma unroll
      for (int part = PARTS - 1; part >= 0; --part) multiply(sum, a, c[part]);
#pragma unroll
      for (int k = 0; k < 4; ++k) kept.sums[step][tile][k] += sum[k];
    }
  }
}

// The gradient of x, over x.
__device__ __forceinline__ void multiply_phi(const Kept& kept, const unsigned char* lines, unsigned line, unsigned x,
                                             unsigned grad, unsigned added, int stream, unsigned at) {
  unsigned a[4], last[2];
  load_matrices(a, line + HALVES_AT);
  load_matrices(last, line + HALVES_AT + 32);
  float weight[2], slope[2], scale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned char* own = lines + (lane_index() / 4 + 8 * half) * LINE_BYTES;
    weight[half] = reinterpret_cast<const float*>(own + WEIGHTS_AT)[stream];
    slope[half] = *reinterpret_cast<const float*>(own + SLOPE_AT);
    scale[half] = *reinterpret_cast<const float*>(own + SCALE_AT);
  }
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    unsigned v[4], g[4], more[4];
    load_matrices(v, x + (at ^ 32 * step));
    load_matrices(g, grad + (at ^ 32 * step));
    if (ADDING) load_matrices(more, added + (at ^ 32 * step));
    unsigned to[4];
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      float sum[4] = {};
      multiply_fp16(sum, a, last, kept.phi[2 * step + k / 2]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float low = sum[2 * half] * scale[half], high = sum[2 * half + 1] * scale[half];
        low = fmaf(weight[half], low_of(g[k + half]), fmaf(slope[half], low_of(v[k + half]), low));
        high = fmaf(weight[half], high_of(g[k + half]), fmaf(slope[half], high_of(v[k + half]), high));
        if (ADDING) {
          low += low_of(more[k + half]);
          high += high_of(more[k + half]);
        }
        to[k + half] = pair_of(low, high);
      }
    }
    store_matrices(x + (at ^ 32 * step), to);
  }
}

__device__ __forceinline__ void products(const Problem& p, const TensorMap* grad_x, const TensorMap* added, Shared& s,
                                         const Steps& steps, const Box& box, Kept& kept, int i) {
  const int stage = i % STAGES, slot = i % SLOTS;
  const unsigned lane = lane_index(), row = lane % 16;
  const unsigned known = shared_address(&s.known[slot]), x = shared_address(s.stages[stage]) + box.warp * BOX_BYTES;
  const unsigned grad = shared_address(s.stages[stage]) + X_BYTES + box.span * BOX_BYTES;
  const unsigned lines = shared_address(s.lines[slot]) + row * LINE_BYTES;
  wait(known, i / SLOTS % 2);
  if (thread_index() == 0) arrive_and_expect(known, KNOWN_BYTES);  // for what comes to this place next
  multiply_x(kept, lines, x, place(lane % 8 + lane / 16 * 8, lane / 8 % 2));
  const unsigned more = shared_address(s.added[ADDING ? box.warp : 0]);
  if (ADDING) wait(shared_address(&s.adding[box.warp]), i % 2);
  multiply_phi(kept, s.lines[slot][0], lines + 16 * (lane / 16), x, grad, more, box.stream, place(row, lane / 16));
  fence_copies();
  __syncwarp();
  if (lane == 0) {
    if (p.stores_x) store_box(grad_x, box.column(steps), box.stream, steps.token(i), x);
    arrive(shared_address(&s.read[stage][box.span]));
    if (ADDING && i + 1 < steps.count) copy_added(added, s, steps, box, i + 1);
  }
}

// Find the power of two of each mix that brings its largest phi near to the largest number in fp16, and put phi there.
__device__ __forceinline__ void take_phi(const Problem& p, Shared& s, const Steps& steps, const Box& box, Kept& kept) {
  const unsigned lane = lane_index(), thread = thread_index();
  const int first = box.stream * HIDDEN + box.column(steps) + lane / 4;
  float phi[2 * STEPS][TILES][2];
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float* row = p.phi + (8 * tile + 2 * (lane % 4) + k) * WIDTH + first;
#pragma unroll
      for (int step = 0; step < 2 * STEPS; ++step) phi[step][tile][k] = row[8 * step];
    }
  }
  if (p.gamma) {
#pragma unroll
    for (int step = 0; step < 2 * STEPS; ++step) {
      const float gamma = p.gamma[first + 8 * step];
#pragma unroll
      for (int k = 0; k < 2 * TILES; ++k) phi[step][k / 2][k % 2] *= gamma;
    }
  }
#pragma unroll
  for (int k = 0; k < 2 * TILES; ++k) {
    float most = 0.0f;
    for (int step = 0; step < 2 * STEPS; ++step) most = fmaxf(most, fabsf(phi[step][k / 2][k % 2]));
    for (int apart = 4; apart < WARP; apart *= 2) most = fmaxf(most, MHC_SHUFFLE_XOR(most, apart));
    if (lane < 4) atomicMax(&s.top[8 * (k / 2) + 2 * lane + k % 2], bits_of(most));
  }
  __syncthreads();
  wait_for_cluster();
  const unsigned topped = shared_address(&s.topped);
  if (thread < BLOCKS * MIXES / 4) {
    const int rank = thread % BLOCKS, quad = 4 * (thread / BLOCKS);
    const float4 four = *reinterpret_cast<const float4*>(&s.top[quad]);
    send(address_in(shared_address(&s.tops[steps.rank][quad]), rank), address_in(topped, rank), four);
  }
  if (thread < MIXES) {
    wait(topped, 0);
    unsigned most = s.tops[0][thread];
    for (int rank = 1; rank < BLOCKS; ++rank) most = max(most, s.tops[rank][thread]);
    s.exponent[thread] = most == 0 ? 0 : min(14 - exponent_of(float_of(most)), 127);
  }
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    const int mix = 8 * tile + 2 * (lane % 4);
    const float factors[2] = {power_of_two(s.exponent[mix]), power_of_two(s.exponent[mix + 1])};
#pragma unroll
    for (int step = 0; step < 2 * STEPS; ++step) {
      kept.phi[step][tile] = pair_of_fp16(phi[step][tile][0] * factors[0], phi[step][tile][1] * factors[1]);
    }
  }
}

// The sums of this cluster, for mhc_pre_one_read_sums.
__device__ __forceinline__ void put_sums(const Problem& p, Shared& s, const Steps& steps, const Box& box, const Kept& kept) {
  const unsigned lane = lane_index(), thread = box.warp * WARP + lane;
  float* to = p.chunks + (long long)steps.cluster * MIXES * WIDTH + box.stream * HIDDEN + box.column(steps) + lane / 4;
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float* row = to + (8 * tile + 2 * (lane % 4) + k % 2) * WIDTH + k / 2 * 8;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) row[16 * step] = kept.sums[step][tile][k];
    }
  }
  __syncthreads();
  if (thread < 2 * MIXES) {
    Exact sum = {};
    for (int k = 0; k < ADDERS * OWNED; ++k) sum.add(s.totals[0][k].bias[thread]);  // and of alpha, which is behind it
    reinterpret_cast<Exact*>(p.chunks + (long long)steps.clusters * MIXES * WIDTH)[block_index() * 2 * MIXES + thread] = sum;
  }
}

__device__ __forceinline__ void init(Shared& s) {
  const int i = thread_index();
  if (i < STAGES) init_barrier(shared_address(&s.full[i]), WARPS);
  if (i < STAGES * SPANS) init_barrier(shared_address(&s.read[0][i]), STREAMS);
  if (i < WARPS) init_barrier(shared_address(&s.adding[i]), 1);
  if (i < SLOTS) init_barrier(shared_address(&s.known[i]), 1);
  if (i < SENT_SLOTS * OWNED) init_barrier(shared_address(&s.sent[0][i]), 1);
  if (i == 0) init_barrier(shared_address(&s.topped), 1);
  if (i < WARP) fence_barriers();
  if (i < MIXES) s.top[i] = 0;
  for (int k = i; k < ADDERS * OWNED * 2 * MIXES; k += ALL) s.totals[0][0].bias[k] = {};  // all: they follow each other
  // What the other blocks send is expected before they can know of this block.
  __syncthreads();
  if (i < SLOTS) arrive_and_expect(shared_address(&s.known[i]), KNOWN_BYTES);
  if (i < SENT_SLOTS * OWNED) arrive_and_expect(shared_address(&s.sent[0][i]), SENT_BYTES);
  if (i == 0) arrive_and_expect(shared_address(&s.topped), TOPS_BYTES);
}

extern "C" __global__ void __launch_bounds__(ALL, 1)
    mhc_pre_one_read(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap grad,
                     const __grid_constant__ TensorMap grad_x, const __grid_constant__ TensorMap added,
                     const __grid_constant__ Problem p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const Steps steps(p);
  const unsigned lane = lane_index();
  const Box box(__shfl_sync(0xffffffffu, thread_index() / WARP, 0));  // the same for all lanes, as the compiler sees now
  init(s);
  arrive_at_cluster();
  wait_for_launch_before();
  if (lane == 0) {
#pragma unroll 1
    for (int i = 0; i < STAGES - 1 && i < steps.count; ++i) copy(&x, &grad, s, steps, box, i);
    if (ADDING && steps.count > 0) copy_added(&added, s, steps, box, 0);
  }
  Kept kept;
  take_phi(p, s, steps, box, kept);
  for (int i = 0; i < 2 && i < steps.count && has_dots(box); ++i) dots(s, steps, box, i);
  if (turn(box, 0) < OWNED && steps.count > 0) coefficients(p, s, steps, 0, turn(box, 0));
#pragma unroll 1
  for (int i = 0; i < steps.count; ++i) {
    if (COPIES_FIRST) copy_next(lane == 0, &x, &grad, s, steps, box, i);
    if (i + 2 < steps.count && has_dots(box)) dots(s, steps, box, i + 2);
    if (turn(box, i + 1) < OWNED && i + 1 < steps.count) coefficients(p, s, steps, i + 1, turn(box, i + 1));
    if (!COPIES_FIRST) copy_next(lane_index() == 0, &x, &grad, s, steps, box, i);
    products(p, &grad_x, &added, s, steps, box, kept, i);
  }
  put_sums(p, s, steps, box, kept);
  if (lane == 0) wait_until_stored();
  leave_cluster();  // no block may end before the others have sent it their last
}

// grad_phi = gamma times the sum over clusters of q, grad_gamma = sum over mixes of phi q: a block for each OWN columns, and
// blocks behind them whose warps have one gradient of alpha or bias each.
constexpr int OWN = 32, QUADS = OWN / 4, THREADS_OF_SUMS = MIXES * QUADS;

__device__ __forceinline__ void add_alpha_bias(const Exact* totals, float* grad_alpha, float* grad_bias, int blocks,
                                               int result) {
  const int gate = result - MIXES;
  if (gate >= 3) return;
  const int first = gate < 0 ? result : MIXES + gate * STREAMS;
  const int many = gate < 0 ? 1 : gate < 2 ? STREAMS : MIXES - 2 * STREAMS;
  const unsigned lane = lane_index();
  Exact sum = {};
#pragma unroll 8
  for (int k = lane; k < many * blocks; k += WARP) sum.add(totals[k / many * 2 * MIXES + first + k % many]);
  for (int apart = 1; apart < WARP; apart *= 2) {
    Exact other;
    other.sum = MHC_SHUFFLE_XOR(sum.sum, apart);
    other.lost = MHC_SHUFFLE_XOR(sum.lost, apart);
    sum.add(other);
  }
  if (lane > 0) return;
  if (gate < 0 && grad_bias) grad_bias[result] = sum.value();
  if (gate >= 0 && grad_alpha) grad_alpha[gate] = sum.value();
}

extern "C" __global__ void __launch_bounds__(THREADS_OF_SUMS)
    mhc_pre_one_read_sums(const float* chunks, const float* phi, const float* gamma, float* grad_phi, float* grad_gamma,
                          float* grad_alpha, float* grad_bias, int clusters) {
  __shared__ float4 sums[MIXES][QUADS];
  wait_for_launch_before();
  if (block_index() >= WIDTH / OWN) {
    const Exact* totals = reinterpret_cast<const Exact*>(chunks + (long long)clusters * MIXES * WIDTH);
    const int result = ((block_index() - WIDTH / OWN) * THREADS_OF_SUMS + thread_index()) / WARP;
    return add_alpha_bias(totals, grad_alpha, grad_bias, clusters * BLOCKS, result);
  }
  const int quad = thread_index() % QUADS, mix = thread_index() / QUADS;
  const int column = int(block_index()) * OWN + 4 * quad, at = mix * WIDTH + column;
  Exact four[4] = {};
#pragma unroll 8
  for (int k = 0; k < clusters; ++k) {
    const float4 more = *reinterpret_cast<const float4*>(chunks + (long long)k * MIXES * WIDTH + at);
    four[0].add(more.x), four[1].add(more.y), four[2].add(more.z), four[3].add(more.w);
  }
  const float4 sum = {four[0].value(), four[1].value(), four[2].value(), four[3].value()};
  if (grad_phi) {
    float4 weight = {1.0f, 1.0f, 1.0f, 1.0f};
    if (gamma) weight = *reinterpret_cast<const float4*>(gamma + column);
    *reinterpret_cast<float4*>(grad_phi + at) = {sum.x * weight.x, sum.y * weight.y, sum.z * weight.z, sum.w * weight.w};
  }
  if (!grad_gamma) return;
  const float4 own = *reinterpret_cast<const float4*>(phi + at);
  sums[mix][quad] = {sum.x * own.x, sum.y * own.y, sum.z * own.z, sum.w * own.w};
  __syncthreads();
  if (thread_index() >= OWN) return;
  Exact total = {};
  for (int o = 0; o < MIXES; ++o) total.add(reinterpret_cast<const float*>(sums[o])[thread_index()]);
  grad_gamma[int(block_index()) * OWN + thread_index()] = total.value();
}
