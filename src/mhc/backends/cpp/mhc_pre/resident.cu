// The forward of mhc_pre and mhc_head on NVIDIA's sm_90 for x in bf16 and four streams. x is read from memory once: a
// cluster keeps its tokens of x in shared memory until it has found h_pre.
//
// A cluster takes TOKENS tokens at a time, a step. Each of its blocks has COLUMNS columns of each stream, and one
// multiprocessor; the blocks write to each other's shared memory. In a block, warps have one role each:
//
//   copy     brings the block's columns of the next tokens to shared memory
//   project  multiplies them with phi by tensor cores, as products.h says
//   add      adds the block's sums up, and sends those of each token to the block that has this token
//   mix      adds all blocks' sums up, makes the coefficients, and sends h_pre to all blocks
//   read     makes h_in of the columns that are still there
//
// The compiler is given STREAMS (4), MIXES (24, or 4 for mhc_head), and how the work is cut: BLOCKS (of a cluster), TOKENS,
// COLUMNS, WIDE, STAGES (steps on their way through a block), SLOTS (those on their way from `add` to `mix`), GROUPS, AWAY
// (columns of a warp, by 16, whose part of phi is in shared memory; -1: all are in registers, in three parts), and
// SHARED_BYTES.
#include "hopper.h"
#include "numbers.h"
#include "products.h"

constexpr int WARPS = 4, GROUP = WARPS * WARP, ALL = GROUPS * GROUP;  // warps of a group have the same registers
constexpr int PROJECTORS = 2 * WARPS, READERS = WARPS, COPIERS = 1, ADDERS = GROUPS == 5 ? 3 : 1;
constexpr int MIXERS = GROUPS * WARPS - PROJECTORS - READERS - COPIERS - ADDERS;
static_assert(GROUPS == 5 || GROUPS == 4, "four groups leave more registers to phi");

// What a warp of `project` has: ROWS tokens and WIDE columns of one stream.
constexpr int ROWS = 16, STEPS = WIDE / 16;
constexpr int SPANS = COLUMNS / WIDE, PARTIAL = STREAMS * SPANS;  // sums that make one of the block
static_assert(TOKENS / ROWS * PARTIAL == PROJECTORS, "each warp of `project` has its part");

// A copy brings a box: the columns of a stream, or a half of them, as a box has 256 at most. It has eight more: then
// eight rows begin in different banks.
constexpr int BOXES = COLUMNS + 8 > 256 ? 2 : 1, BOX = COLUMNS / BOXES;
static_assert(BOX % WIDE == 0 && BOX + 8 <= 256, "the columns of a warp are in one box");
constexpr int ROW_BYTES = 2 * (BOX + 8), PIECES = COLUMNS / 8;  // a piece is 16 bytes
constexpr int BOX_BYTES = TOKENS * ROW_BYTES, STAGE_BYTES = STREAMS * BOXES * BOX_BYTES;

constexpr int TILES = (MIXES + 7) / 8, PADDED = 8 * TILES;
constexpr int LINE = PADDED + 4;  // floats of a token: the products, the sum of squares, and zeros
constexpr int OWN = TOKENS / BLOCKS;  // tokens of a step whose coefficients a block makes
constexpr int EACH = 8;               // lanes of `mix` for a token, each with four floats of the line
static_assert(TOKENS == OWN * BLOCKS && OWN * EACH <= WARP, "a warp of `mix` has the block's tokens");
constexpr int SENT = TOKENS * 4 * (PADDED + 1), KNOWN = TOKENS * STREAMS * 4;  // bytes in a step

constexpr bool WHOLE = AWAY >= 0;
// A tensor core cuts what it adds, always towards zero, and twice as often in whole weights. So their sums are put away in
// the middle, and begin at zero again.
constexpr int CUT = WHOLE ? STEPS / 2 : 0;
constexpr int AWAY_THREADS = PROJECTORS * WARP, AWAY_BYTES = WHOLE ? 16 * AWAY * TILES * AWAY_THREADS : 0;

// phi, and gamma behind it, lie in the last stages, and where weights are put away, until `project` has them in
// registers; meanwhile x has the other stages.
// A row is the block's columns of one stream. It has eight more, so that rows of eight mixes, which follow each other,
// begin in different banks.
constexpr int PHI_ROW = COLUMNS + 8, PHI_ROWS = (MIXES + 1) * STREAMS, PHI_BYTES = 4 * PHI_ROW * PHI_ROWS;
constexpr int FRONT = STAGES * STAGE_BYTES + AWAY_BYTES, FREE = (FRONT - PHI_BYTES) / STAGE_BYTES;
static_assert(FRONT >= PHI_BYTES, "phi fits");

// What was fastest on an H200, at hidden 1280 and 2560 and beyond that: the steps of x that are brought to the L2 cache
// before the launch before has ended, and whether x leaves that cache first (103 us in place of 97 at 4096).
constexpr bool WIDE_LAYER = COLUMNS > 160, LEAVES_FIRST = !WIDE_LAYER;
constexpr int AHEAD = WIDE_LAYER ? 1 : 3;
// And on an H100: phi is brought there too for a cluster of up to so many steps. With more it took 0 to 2 % longer.
constexpr int FEW_STEPS = WIDE_LAYER ? 0 : 5;

struct Shared {
  unsigned char front[FRONT];
  float sums[PARTIAL][TOKENS][PADDED];
  float squares[PARTIAL][TOKENS];
  float lines[SLOTS][OWN][BLOCKS][LINE];
  float h_pre[STAGES][TOKENS][STREAMS];
  unsigned long long full[STAGES], empty[STAGES], known[STAGES], sent[SLOTS], used[SLOTS], added, taken, phi, weighed;

  __device__ __forceinline__ unsigned char* x(int stage) { return front + stage * STAGE_BYTES; }
  __device__ __forceinline__ float4* away() { return reinterpret_cast<float4*>(x(STAGES)); }
  __device__ __forceinline__ float* phi_row(int row) {
    return reinterpret_cast<float*>(front + FRONT - PHI_BYTES) + row * PHI_ROW;
  }
  __device__ __forceinline__ float2 phi_at(int mix, int stream, int column) {
    return *reinterpret_cast<const float2*>(phi_row(stream * MIXES + mix) + column);
  }
  __device__ __forceinline__ float2 gamma_at(int stream, int column) {
    return *reinterpret_cast<const float2*>(phi_row(MIXES * STREAMS + stream) + column);
  }
};

static_assert(sizeof(Shared) <= SHARED_BYTES, "resident.py knows how large it is");

struct Problem {
  const float *phi, *alpha, *bias, *gamma;
  bf16* h_in;
  float *h_post, *h_res, *m, *r;
  int tokens;
  float norm_eps, pre_eps, post_scale;
};

constexpr int HIDDEN = BLOCKS * COLUMNS;

// What a block does: step i of its cluster is step `at(i)` of all.
struct Steps {
  int rank, cluster, clusters, all;

  __device__ __forceinline__ explicit Steps(const Problem& p) {
    rank = int(block_index()) % BLOCKS;
    cluster = int(block_index()) / BLOCKS;
    clusters = grid_size() / BLOCKS;
    all = (p.tokens + TOKENS - 1) / TOKENS;
  }
  __device__ __forceinline__ int at(int i) const { return cluster + i * clusters; }
  __device__ __forceinline__ bool has(int i) const { return at(i) < all; }
};

__device__ __forceinline__ int lane_index() { return thread_index() % WARP; }

// Where eight columns of a token begin in a stage.
__device__ __forceinline__ int place(int stream, int token, int piece) {
  const int box = stream * BOXES + piece / (BOX / 8);
  return box * BOX_BYTES + token * ROW_BYTES + 16 * (piece % (BOX / 8));
}

// All threads copy phi. It is the first thing that the block asks the memory for: behind x, it would wait for all of x.
// 16 bytes at a time: the parts of phi as a thread multiplies them are 8 bytes each, and would take three times as long.
__device__ __forceinline__ void copy_phi(const Problem& p, Shared& s, int rank) {
  constexpr int QUADS = COLUMNS / 4, OF_PHI = MIXES * STREAMS;
  const int rows = p.gamma ? PHI_ROWS : OF_PHI;
#pragma unroll 1
  for (int k = thread_index(); k < rows * QUADS; k += ALL) {
    const int row = k / QUADS, column = 4 * (k % QUADS);
    const int to = row < OF_PHI ? row % STREAMS * MIXES + row / STREAMS : row;
    const float* from = row < OF_PHI ? p.phi : p.gamma - OF_PHI * HIDDEN;
    copy_quad(shared_address(s.phi_row(to) + column), from + row * HIDDEN + rank * COLUMNS + column);
  }
  arrive_when_copied(shared_address(&s.phi));
}

// Let phi come nearer while the launch before this one ends, by one warp. Each cluster asks for a part of it.
__device__ __forceinline__ void prefetch_phi(const Problem& p, const Steps& steps) {
  constexpr int LINE = 32, LINES = (COLUMNS + LINE - 1) / LINE;
#pragma unroll 1
  for (int k = lane_index() + WARP * steps.cluster; k < MIXES * STREAMS * LINES; k += WARP * steps.clusters) {
    prefetch(p.phi + k / LINES * HIDDEN + steps.rank * COLUMNS + k % LINES * LINE);
  }
}

// Let the first steps of x come nearer while the launch before this one ends.
__device__ __forceinline__ void prefetch_x(const TensorMap* map, const Steps& steps) {
  prefetch_map(map);
#pragma unroll 1
  for (int i = 0; i < AHEAD && steps.has(i); ++i) {
    for (int k = 0; k < STREAMS * BOXES; ++k) {
      prefetch_box(map, steps.rank * COLUMNS + k % BOXES * BOX, k / BOXES, steps.at(i) * TOKENS);
    }
  }
}

__device__ __forceinline__ void copy(const TensorMap* map, Shared& s, const Steps& steps) {
#pragma unroll 1
  for (int i = 0; steps.has(i); ++i) {
    const int stage = i % STAGES, turn = i / STAGES;
    if (turn > 0) wait(shared_address(&s.empty[stage]), (turn - 1) % 2);
    if (i == FREE) wait(shared_address(&s.weighed), 0);
    const unsigned full = shared_address(&s.full[stage]);
    arrive_and_expect(full, STAGE_BYTES);
    for (int k = 0; k < STREAMS * BOXES; ++k) {
      const int column = steps.rank * COLUMNS + k % BOXES * BOX;
      copy_box<LEAVES_FIRST>(shared_address(s.x(stage) + k * BOX_BYTES), map, column, k / BOXES, steps.at(i) * TOKENS, full);
    }
  }
}

template <typename Weights>
__device__ __forceinline__ void take_weights(const Problem& p, Shared& s, int stream, int first, Weights& weights) {
  const int lane = lane_index();
  wait(shared_address(&s.phi), 0);
  const auto phi_at = [&](int tile, int column) -> float2 {
    const int mix = 8 * tile + lane / 4;
    if (mix >= MIXES) return {0.0f, 0.0f};
    return s.phi_at(mix, stream, first + column);
  };
  const auto product_at = [&](int tile, int column) -> float2 {
    const float2 phi = phi_at(tile, column), gamma = s.gamma_at(stream, first + column);
    return {phi.x * gamma.x, phi.y * gamma.y};
  };
  if (p.gamma) {
    weights.take(product_at, lane);
  } else {
    weights.take(phi_at, lane);
  }
  fence_copies();
  __syncwarp();
  if (lane == 0) arrive(shared_address(&s.weighed));
}

// Put a warp's sums where `add` finds them, beside those that are there.
__device__ __forceinline__ void put_sums(Shared& s, int partial, int first, const Sums<TILES>& sums, bool beside) {
  const int lane = lane_index();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = first + 8 * half + lane / 4;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      float2* place = reinterpret_cast<float2*>(&s.sums[partial][token][8 * tile + 2 * (lane % 4)]);
      float2 sum = {sums.large[tile][2 * half] + sums.small[tile][2 * half],
                    sums.large[tile][2 * half + 1] + sums.small[tile][2 * half + 1]};
      if (beside) {
        const float2 before = *place;
        sum.x += before.x;
        sum.y += before.y;
      }
      *place = sum;
    }
  }
}

template <typename Weights>
__device__ __forceinline__ void multiply_steps(const Weights& weights, Shared& s, const Steps& steps, int warp) {
  const int lane = lane_index(), partial = warp % PARTIAL, stream = partial % STREAMS, span = partial / STREAMS;
  const int first = warp / PARTIAL * ROWS;
  const int row = place(stream, first + lane % 16, span * WIDE / 8 + lane / 16);
  for (int i = 0; steps.has(i); ++i) {
    const int stage = i % STAGES;
    Sums<TILES> sums;
    float grams[2][4] = {};
    wait(shared_address(&s.full[stage]), i / STAGES % 2);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      unsigned a[4];
      load_matrices(a, shared_address(s.x(stage) + row + 32 * step));
      weights.multiply_by(a, step, sums);
      const unsigned first_half[2] = {a[0], a[2]}, second_half[2] = {a[1], a[3]};
      multiply(grams[0], a, first_half);
      multiply(grams[1], a, second_half);
      if (step + 1 == CUT) {
        if (i > 0) wait(shared_address(&s.taken), (i - 1) % 2);
        put_sums(s, partial, first, sums, false);
        sums = Sums<TILES>();
      }
    }
    __syncwarp();
    if (lane == 0) arrive(shared_address(&s.empty[stage]));
    if (CUT == 0 && i > 0) wait(shared_address(&s.taken), (i - 1) % 2);
    put_sums(s, partial, first, sums, CUT > 0);
    for (int half = 0; half < 2; ++half) {
      const int token = first + 8 * half + lane / 4;
      const float square = lane / 4 % 2 == 0 ? grams[half][2 * half] : grams[half][2 * half + 1];
      if (lane % 4 == lane / 8) s.squares[partial][token] = square;
    }
    __syncwarp();
    if (lane == 0) arrive(shared_address(&s.added));
  }
}

__device__ __forceinline__ void project(const Problem& p, Shared& s, const Steps& steps, int warp) {
  const int partial = warp % PARTIAL, stream = partial % STREAMS, first = partial / STREAMS * WIDE;
  if constexpr (WHOLE) {
    Whole<STEPS, TILES, STEPS - AWAY> weights;
    take_weights(p, s, stream, first, weights);
    wait(shared_address(&s.weighed), 0);  // the phi of other warps may lie where these weights go
    weights.template put_away<AWAY_THREADS>(s.away() + warp * WARP + lane_index());
    wait_for_cluster();
    multiply_steps(weights, s, steps, warp);
  } else {
    Parts<STEPS, TILES> weights;
    take_weights(p, s, stream, first, weights);
    wait_for_cluster();
    multiply_steps(weights, s, steps, warp);
  }
}

__device__ __forceinline__ void add_to(float4& sum, const float4& more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

__device__ __forceinline__ void add(Shared& s, const Steps& steps, int warp) {
  constexpr int QUADS = PADDED / 4, THREADS_OF_ADD = ADDERS * WARP, ITEMS = TOKENS * QUADS;
  const int thread = warp * WARP + lane_index();
  wait_for_cluster();
  for (int i = 0; steps.has(i); ++i) {
    const int slot = i % SLOTS, turn = i / SLOTS;
    wait(shared_address(&s.added), i % 2);
    if (turn > 0) wait(shared_address(&s.used[slot]), (turn - 1) % 2);
    const unsigned sent = shared_address(&s.sent[slot]);
#pragma unroll
    for (int k = 0; k < (ITEMS + THREADS_OF_ADD - 1) / THREADS_OF_ADD; ++k) {
      const int at = thread + k * THREADS_OF_ADD, token = at / QUADS, column = 4 * (at % QUADS), owner = token / OWN;
      if (at >= ITEMS) break;
      float4 sum = *reinterpret_cast<const float4*>(&s.sums[0][token][column]);
      for (int n = 1; n < PARTIAL; ++n) add_to(sum, *reinterpret_cast<const float4*>(&s.sums[n][token][column]));
      const unsigned to = shared_address(&s.lines[slot][token % OWN][steps.rank][column]);
      send(address_in(to, owner), address_in(sent, owner), sum);
    }
    if (thread < TOKENS) {
      float sum = s.squares[0][thread];
      for (int n = 1; n < PARTIAL; ++n) sum += s.squares[n][thread];
      const unsigned to = shared_address(&s.lines[slot][thread % OWN][steps.rank][PADDED]);
      send(address_in(to, thread / OWN), address_in(sent, thread / OWN), sum);
    }
    __syncwarp();
    if (lane_index() == 0) arrive(shared_address(&s.taken));
  }
}

// What a lane of `mix` needs of alpha and bias: those of four mixes.
struct Gates {
  float alpha, bias[4];

  __device__ __forceinline__ Gates(const Problem& p, int quad) {
    const bool is_mix = 4 * quad < MIXES;
    alpha = is_mix ? p.alpha[quad < 2 ? quad : 2] : 0.0f;
    for (int k = 0; k < 4; ++k) bias[k] = is_mix ? p.bias[4 * quad + k] : 0.0f;
  }
};

// The coefficients of a token, of which a lane has four mixes; the first eight are for gates, and each lane makes one
// of these. h_pre goes to all blocks.
__device__ __forceinline__ void coefficients(const Problem& p, Shared& s, const Gates& gates, int stage, int row,
                                             int token, int quad, const float4& sum) {
  const int from = lane_index() / EACH * EACH;
  const float squares = __shfl_sync(0xffffffffu, sum.x, from + PADDED / 4);
  const float norm = inverse_root(squares * (1.0f / float(STREAMS * HIDDEN)) + p.norm_eps);
  const float mixes[4] = {sum.x * norm, sum.y * norm, sum.z * norm, sum.w * norm};
  float z[4], own = 0.0f;
  for (int k = 0; k < 4; ++k) {
    z[k] = gates.alpha * mixes[k] + gates.bias[k];
    const float value = __shfl_sync(0xffffffffu, z[k], from + quad / 4);
    if (quad % 4 == k) own = value;
  }
  const float gate = sigmoid(own), weight = gate + p.pre_eps;
  float4 h_pre;
  h_pre.x = __shfl_sync(0xffffffffu, weight, from);
  h_pre.y = __shfl_sync(0xffffffffu, weight, from + 1);
  h_pre.z = __shfl_sync(0xffffffffu, weight, from + 2);
  h_pre.w = __shfl_sync(0xffffffffu, weight, from + 3);
  if (row >= TOKENS) return;
  const unsigned to = shared_address(s.h_pre[stage][row]), known = shared_address(&s.known[stage]);
  for (int rank = quad; rank < BLOCKS; rank += EACH) send(address_in(to, rank), address_in(known, rank), h_pre);
  if (token >= p.tokens) return;
  if (quad == PADDED / 4) p.r[token] = norm;
  if (MIXES > STREAMS && quad >= STREAMS) p.h_post[(long long)token * STREAMS + quad - STREAMS] = p.post_scale * gate;
  if (4 * quad >= MIXES) return;
  *reinterpret_cast<float4*>(p.m + (long long)token * MIXES + 4 * quad) = {mixes[0], mixes[1], mixes[2], mixes[3]};
  if (quad < 2) return;
  float* h_res = p.h_res + (long long)token * STREAMS * STREAMS + 4 * (quad - 2);
  *reinterpret_cast<float4*>(h_res) = {z[0], z[1], z[2], z[3]};
}

// A warp takes the block's tokens of a step, and other warps the next steps meanwhile.
__device__ __forceinline__ void mix(const Problem& p, Shared& s, const Steps& steps, int warp) {
  const int lane = lane_index(), quad = lane % EACH, mine = lane / EACH;
  const Gates gates(p, quad);
  wait_for_cluster();
  for (int i = warp; steps.has(i); i += MIXERS) {
    const int slot = i % SLOTS, turn = i / SLOTS, row = mine < OWN ? steps.rank * OWN + mine : TOKENS;
    if (lane == 0) {
      if (turn > 0) wait(shared_address(&s.sent[slot]), (turn - 1) % 2);
      arrive_and_expect(shared_address(&s.sent[slot]), SENT);
    }
    __syncwarp();
    wait(shared_address(&s.sent[slot]), turn % 2);
    float4 sum = {};
    if (row < TOKENS && 4 * quad < LINE) {
#pragma unroll
      for (int rank = 0; rank < BLOCKS; ++rank) {
        add_to(sum, *reinterpret_cast<const float4*>(&s.lines[slot][mine][rank][4 * quad]));
      }
    }
    __syncwarp();
    // Nobody waits for the last steps, and a block that has ended must not be written to.
    if (lane < BLOCKS && steps.has(i + SLOTS)) arrive_at(shared_address(&s.used[slot]), lane);
    coefficients(p, s, gates, i % STAGES, row, steps.at(i) * TOKENS + row, quad, sum);
  }
}

__device__ __forceinline__ void read(const Problem& p, Shared& s, const Steps& steps, int warp) {
  constexpr int ITEMS = TOKENS * PIECES, AT_A_TIME = GROUPS == 5 ? 8 : 4;  // with fewer registers, fewer
  const int lane = lane_index(), thread = warp * WARP + lane;
  wait_for_cluster();
  for (int i = 0; steps.has(i); ++i) {
    const int stage = i % STAGES, parity = i / STAGES % 2;
    if (thread == 0) arrive_and_expect(shared_address(&s.known[stage]), KNOWN);
    wait(shared_address(&s.full[stage]), parity);
    wait(shared_address(&s.known[stage]), parity);
#pragma unroll AT_A_TIME
    for (int k = 0; k < (ITEMS + GROUP - 1) / GROUP; ++k) {
      const int at = thread + k * GROUP, row = at / PIECES, piece = at % PIECES;
      if (at >= ITEMS) break;
      const float4 h_pre = *reinterpret_cast<const float4*>(s.h_pre[stage][row]);
      const float factors[STREAMS] = {h_pre.x, h_pre.y, h_pre.z, h_pre.w};
      float low[4] = {}, high[4] = {};
      for (int n = 0; n < STREAMS; ++n) {
        const uint4 x = *reinterpret_cast<const uint4*>(s.x(stage) + place(n, row, piece));
        const unsigned pairs[4] = {x.x, x.y, x.z, x.w};
        for (int j = 0; j < 4; ++j) {
          low[j] += factors[n] * float_of(pairs[j] << 16);
          high[j] += factors[n] * float_of(pairs[j] & 0xffff0000);
        }
      }
      const long long token = steps.at(i) * TOKENS + row;
      if (token < p.tokens) {
        *reinterpret_cast<uint4*>(p.h_in + token * HIDDEN + steps.rank * COLUMNS + 8 * piece) = {
            pair_of(low[0], high[0]), pair_of(low[1], high[1]), pair_of(low[2], high[2]), pair_of(low[3], high[3])};
      }
    }
    __syncwarp();
    if (lane == 0) arrive(shared_address(&s.empty[stage]));
  }
}

// Each thread makes some of the barriers ready.
__device__ __forceinline__ void init(Shared& s) {
  const int i = thread_index();
  if (i < STAGES) {
    init_barrier(shared_address(&s.full[i]), 1);
    init_barrier(shared_address(&s.empty[i]), PROJECTORS + READERS);
    init_barrier(shared_address(&s.known[i]), 1);
  }
  if (i < SLOTS) {
    init_barrier(shared_address(&s.sent[i]), 1);
    init_barrier(shared_address(&s.used[i]), BLOCKS);
  }
  if (i == 0) {
    init_barrier(shared_address(&s.added), PROJECTORS);
    init_barrier(shared_address(&s.taken), ADDERS);
    init_barrier(shared_address(&s.phi), ALL);
    init_barrier(shared_address(&s.weighed), PROJECTORS);
  }
  if (i < WARP) fence_barriers();
#pragma unroll 1
  for (int k = i; k < SLOTS * OWN * BLOCKS; k += ALL) {
    *reinterpret_cast<float4*>(&s.lines[0][0][k][PADDED]) = {};  // three zeros of each line stay
  }
}

extern "C" __global__ void __launch_bounds__(ALL, 1)
    mhc_pre_resident(const __grid_constant__ TensorMap map, const __grid_constant__ Problem p) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int warp = thread_index() / WARP;
  constexpr int COPIER = PROJECTORS + READERS, FIRST_ADDER = COPIER + COPIERS, FIRST_MIXER = FIRST_ADDER + ADDERS;
  if constexpr (FEW_STEPS > 0) {
    if (warp == COPIER && !Steps(p).has(FEW_STEPS)) prefetch_phi(p, Steps(p));
  }
  if (warp == COPIER && lane_index() == 0) prefetch_x(&map, Steps(p));
  init(s);
  __syncthreads();
  arrive_at_cluster();
  // Registers change owners before the wait: it takes time.
  if (warp < PROJECTORS) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(GROUPS == 5 ? 144 : 208));
    wait_for_launch_before();
    copy_phi(p, s, Steps(p).rank);
    project(p, s, Steps(p), warp);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(GROUPS == 5 ? 64 : 48));
    wait_for_launch_before();
    copy_phi(p, s, Steps(p).rank);
    if (warp < COPIER) {
      read(p, s, Steps(p), warp - PROJECTORS);
    } else if (warp < FIRST_ADDER) {
      if (lane_index() == 0) copy(&map, s, Steps(p));
      wait_for_cluster();
    } else if (warp < FIRST_MIXER) {
      add(s, Steps(p), warp - FIRST_ADDER);
    } else {
      mix(p, s, Steps(p), warp - FIRST_MIXER);
    }
  }
  leave_cluster();  // no block may end before the others have sent it their last
}
