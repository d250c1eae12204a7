// Products of matrices over the lanes of a wave. Products are exact; a sum is made in fp64 and rounded once.
#include "small_floats.h"
#include "vector_operands.h"

namespace {

// parameter: rows (and columns), depth, types of the factors
enum MatrixParameter { kRows, kDepth, kType, kSum = kType + 2, kBlocks };  // kSum: the type of the sum on RDNA, kFp32 or a half
enum Type : u32 { kFp32, kFp16, kBf16, kXf32, kI8, kU8, kE4m3, kE5m2, kOldE4m3, kOldE5m2 };

// RDNA's bytes have a sign where the bit for a negated factor is set.
static u32 type_of(const Record& i, u32 place) {
  const u32 type = i.parameter[kType + place];
  return type == kU8 && i.negate >> place & 1 ? kI8 : type;
}

static bool is_whole(const Record& i) { return i.parameter[kType] == kI8 || i.parameter[kType] == kU8; }

static u32 elements_in_register(u32 type) { return type >= kI8 ? 4 : type == kFp16 || type == kBf16 ? 2 : 1; }

// XF32: taken as fp32 whose fraction is rounded to 10 bits.
static float xf32(u32 value) { return f32((value + 0xfff + (value >> 13 & 1)) & 0xffffe000); }

static float element(const Wave& w, u32 first, u32 lane, u32 index, u32 type) {
  if (type == kXf32) return xf32(w.vector[first + index][lane]);
  if (type == kFp32) return f32(w.vector[first + index][lane]);
  if (type >= kI8) {
    const u32 byte = w.vector[first + index / 4][lane] >> 8 * (index & 3) & 255;
    if (type == kI8 || type == kU8) return type == kI8 ? static_cast<int8_t>(byte) : static_cast<float>(byte);
    return static_cast<float>(small_float(byte, type == kE4m3 || type == kOldE4m3 ? 3 : 2, type >= kOldE4m3));
  }
  const u32 value = w.vector[first + index / 2][lane] >> 16 * (index & 1);
  return type == kFp16 ? f16(value) : bf16(value);
}

static double addend(const Wave& w, const Record& i, u32 index, u32 lane) {
  const Operand& sum = i.source[2];
  if (const u32 type = i.parameter[kSum]) {
    if (sum.kind != kVector) return type == kFp16 ? f16(static_cast<u32>(sum.value)) : bf16(static_cast<u32>(sum.value));
    const bool packed = w.family == kRdna4, high = packed ? index & 1 : i.half >> 2 & 1;
    const u32 value = w.vector[sum.number + (packed ? index / 2 : index)][lane] >> 16 * high & 0xffff;
    return type == kFp16 ? f16(value) : bf16(value);
  }
  const u32 value = sum.kind == kVector ? w.vector[sum.number + index][lane] : static_cast<u32>(sum.value);
  return is_whole(i) ? static_cast<double>(s32(value)) : f32(value);
}

static u64 defined_in(Wave& w, const Record& i, u32 first, u32 count) {
  u64 defined = ~0ull;
  for (u32 k = 0; k < count; k++) {
    await_vector(w, i, first + k);
    defined &= w.defined[first + k];
  }
  return defined;
}

struct Matrices {
  float a[32 * 64], b[32 * 64];
  u32 result[32][kLanes];
};

// An undefined factor makes the whole result undefined: each of its numbers is in a row of the result.
// `left` and `right` are the lanes that the factors are taken from.
static bool is_defined(Wave& w, const Record& i, u32 registers, u32 results, u64 left = ~0ull, u64 right = ~0ull) {
  const u64 lanes = w.lanes == 64 ? ~0ull : 0xffffffff;
  u64 defined = defined_in(w, i, i.source[0].number, registers) | ~left;
  defined &= defined_in(w, i, i.source[1].number, registers) | ~right;
  const bool packed = i.parameter[kSum] && w.family == kRdna4;
  for (u32 k = 0; i.source[2].kind == kVector && k < (packed ? results / 2 : results); k++) {
    await_vector(w, i, i.source[2].number + k);
    const Known& known = w.defined[i.source[2].number + k];
    defined &= i.parameter[kSum] && !packed ? known.half[i.half >> 2 & 1] : static_cast<u64>(known);
  }
  return (defined & lanes) == lanes;
}

// A sum of halves: on RDNA 3 each in a register of its own, in the half that op_sel names; on RDNA 4 two in a register.
static void put_halves(Wave& w, const Record& i, const Matrices& m, u32 results, bool defined) {
  const bool packed = w.family == kRdna4, high = i.half >> 2 & 1;
  w.mask = 0xffffffff;
  for (u32 k = 0; k < results; k += packed ? 2 : 1) {
    const u32 number = i.destination + (packed ? k / 2 : k);
    Known known = w.defined[number];
    Lanes both;
    await_vector(w, i, number);
    for (u32 lane = 0; lane < kLanes; lane++) {
      const u32 old = w.vector[number][lane], one = m.result[k][lane];
      both.value[lane] = packed ? one | m.result[k + 1][lane] << 16 : high ? (old & 0xffff) | one << 16 : (old & ~0xffffu) | one;
    }
    for (u32 half = 0; half < 2; half++) {
      if (packed || half == high) known.half[half] = defined ? ~0ull : 0;
    }
    put(w, number, both.value, known);
  }
}

static void put_matrix(Wave& w, const Record& i, const Matrices& m, u32 results, bool defined) {
  if (i.parameter[kSum]) return put_halves(w, i, m, results, defined);
  for (u32 k = 0; k < results; k++) {
    await_vector(w, i, i.destination + k);
    w.mask = w.lanes == 64 ? ~0ull : 0xffffffff;
    put(w, i.destination + k, m.result[k], defined ? ~0ull : 0);
  }
}

// One sum of products for each lane and result register; `place` gives its row and column.
template <class Place>
static void multiply(Wave& w, const Record& i, Matrices& m, u32 results, u32 depth, Place place) {
  for (u32 k = 0; k < results; k++) {
    for (u32 lane = 0; lane < w.lanes; lane++) {
      const auto [row, column] = place(k, lane);
      double sum = addend(w, i, k, lane);
      for (u32 d = 0; d < depth; d++) sum += static_cast<double>(m.a[row * depth + d]) * m.b[column * depth + d];
      const u32 type = i.parameter[kSum];
      m.result[k][lane] = is_whole(i)      ? static_cast<u32>(static_cast<i64>(sum))
                          : type == kFp16 ? bits16(sum)
                          : type == kBf16 ? bits_bf16(static_cast<float>(sum))
                                          : bits(static_cast<float>(sum));
    }
  }
}

// The lane that a lane has its second factor from, by the pattern of BLGP.
static u32 lane_of_pattern(u32 pattern, u32 lane) {
  if (pattern == 0) return lane;
  if (pattern == 1) return lane & 31;
  if (pattern == 2) return lane | 32;
  if (pattern == 3) return (lane + 16) & 63;
  return 16 * (pattern - 4) + (lane & 15);
}

// half: BLGP; half_high: CBSZ, so many blocks, as a power of two, have the first factor of one of them; immediate: ABID,
// which of them
HANDLER(mfma) {
  static thread_local Matrices m;
  const u32 rows = i.parameter[kRows], depth = i.parameter[kDepth], type = i.parameter[kType], blocks = i.parameter[kBlocks];
  const u32 each = depth * rows * blocks / 64, results = rows * rows * blocks / 64;
  const u32 packed = elements_in_register(type);
  u64 from_left = 0, from_right = 0;
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u32 sharing = rows << i.half_high;  // lanes whose blocks share a factor
    const u32 left = lane / sharing * sharing + rows * static_cast<u32>(i.immediate) + lane % rows;
    const u32 lanes[2] = {i.half_high ? left : lane, lane_of_pattern(i.half, lane)};
    from_left |= 1ull << lanes[0], from_right |= 1ull << lanes[1];
    for (u32 index = 0; index < each; index++) {
      const u32 d = each * (lane / (rows * blocks)) + index, row = lane % (rows * blocks);
      m.a[row * depth + d] = element(w, i.source[0].number, lanes[0], index, type_of(i, 0));
      m.b[row * depth + d] = element(w, i.source[1].number, lanes[1], index, type_of(i, 1));
    }
  }
  const bool defined = is_defined(w, i, (each + packed - 1) / packed, results, from_left, from_right);
  multiply(w, i, m, results, depth, [=](u32 k, u32 lane) {
    const u32 registers = results / blocks;  // of a block; of 4 rows a register has all blocks
    const u32 block = rows == 4 ? lane / 4 : k / registers, first = rows * block, of_block = rows == 4 ? k : k % registers;
    const u32 row = rows == 32 ? 8 * (of_block / 4) + 4 * (lane / 32) + k % 4 : rows == 16 ? 4 * (lane / 16) + of_block : k;
    return std::pair<u32, u32>(first + row, first + lane % rows);
  });
  put_matrix(w, i, m, results, defined);
}

static double pair(const Wave& w, u32 number, u32 lane) {
  return f64(w.vector[number][lane] | static_cast<u64>(w.vector[number + 1][lane]) << 32);
}

// fp64 with a depth of 4, one block of 16x16 or four of 4x4: a register pair has every fourth row of the result. Each product
// is added with one rounding. negate: of both factors and the sum
HANDLER(mfma_f64) {
  constexpr u32 kSide = 16, kDeep = 4, kMostPairs = 4;  // kSide: rows of all blocks
  const u32 rows = i.parameter[kRows], pairs = rows / kDeep;
  const Operand& sum = i.source[2];
  const bool defined = is_defined(w, i, 2, 2 * pairs);
  const double signs[3] = {i.negate & 1 ? -1. : 1., i.negate & 2 ? -1. : 1., i.negate & 4 ? -1. : 1.};
  u32 result[2 * kMostPairs][kLanes];
  for (u32 k = 0; k < pairs; k++) {
    for (u32 lane = 0; lane < kLanes; lane++) {
      double total = signs[2] * (sum.kind == kVector ? pair(w, sum.number + 2 * k, lane) : f64(sum.value));
      for (u32 d = 0; d < kDeep; d++) {
        const u32 column = lane % kSide, row = column / rows * rows + pairs * k + lane / kSide;
        const double a = pair(w, i.source[0].number, row + kSide * d), b = pair(w, i.source[1].number, column + kSide * d);
        total = std::fma(signs[0] * a, signs[1] * b, total);
      }
      result[2 * k][lane] = static_cast<u32>(bits64(total)), result[2 * k + 1][lane] = static_cast<u32>(bits64(total) >> 32);
    }
  }
  w.mask = ~0ull;
  for (u32 k = 0; k < 2 * pairs; k++) {
    await_vector(w, i, i.destination + k);
    put(w, i.destination + k, result[k], defined ? ~0ull : 0);
  }
}

// 16x16x16 of RDNA 3: the factors are repeated in both halves of the wave; a half has every second row of the result.
HANDLER(wmma_rdna3) {
  static thread_local Matrices m;
  const bool defined = is_defined(w, i, 16 / elements_in_register(i.parameter[kType]), 8);
  for (u32 lane = 0; lane < 16; lane++) {
    for (u32 d = 0; d < 16; d++) {
      m.a[lane * 16 + d] = element(w, i.source[0].number, lane, d, type_of(i, 0));
      m.b[lane * 16 + d] = element(w, i.source[1].number, lane, d, type_of(i, 1));
    }
  }
  multiply(w, i, m, 8, 16, [](u32 k, u32 lane) { return std::pair<u32, u32>(2 * k + lane / 16, lane % 16); });
  put_matrix(w, i, m, 8, defined);
}

// 16x16x16 of RDNA 4: each half of the wave has half of the depth, and half of the rows of the result.
HANDLER(wmma_rdna4) {
  static thread_local Matrices m;
  const bool defined = is_defined(w, i, 8 / elements_in_register(i.parameter[kType]), 8);
  for (u32 lane = 0; lane < 32; lane++) {
    for (u32 index = 0; index < 8; index++) {
      const u32 d = 8 * (lane / 16) + index;
      m.a[lane % 16 * 16 + d] = element(w, i.source[0].number, lane, index, type_of(i, 0));
      m.b[lane % 16 * 16 + d] = element(w, i.source[1].number, lane, index, type_of(i, 1));
    }
  }
  multiply(w, i, m, 8, 16, [](u32 k, u32 lane) { return std::pair<u32, u32>(k + 8 * (lane / 16), lane % 16); });
  put_matrix(w, i, m, 8, defined);
}

// 16x16 of gfx1250: each half of the wave has every second block of the depth, and half of the rows of the result.
HANDLER(wmma_gfx1250) {
  static thread_local Matrices m;
  const u32 depth = i.parameter[kDepth], each = depth / 2, block = depth < 32 ? each : each / 2;
  const bool defined = is_defined(w, i, each / elements_in_register(i.parameter[kType]), 8);
  for (u32 lane = 0; lane < 32; lane++) {
    for (u32 index = 0; index < each; index++) {
      const u32 d = 2 * block * (index / block) + block * (lane / 16) + index % block;
      m.a[lane % 16 * depth + d] = element(w, i.source[0].number, lane, index, type_of(i, 0));
      m.b[lane % 16 * depth + d] = element(w, i.source[1].number, lane, index, type_of(i, 1));
    }
  }
  multiply(w, i, m, 8, depth, [](u32 k, u32 lane) { return std::pair<u32, u32>(k + 8 * (lane / 16), lane % 16); });
  put_matrix(w, i, m, 8, defined);
}

}  // namespace
