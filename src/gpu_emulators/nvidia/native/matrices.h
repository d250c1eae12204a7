// Products of matrices: elements of their types, and a product that is exact and rounded once.
#pragma once

#include "memory.h"

enum Element : u32 { kBf16, kF16, kTf32, kE4m3, kE5m2, kS8, kU8 };
enum Sum : u32 { kInF32, kInF16, kInS32 };

static inline u32 bytes_of(u32 type) { return type <= kF16 ? 2 : type == kTf32 ? 4 : 1; }

static inline double element(u32 bits, u32 type) {
  switch (type) {
    case kBf16: return bf16(bits & 0xffff);
    case kF16: return f16(bits);
    case kTf32: return tf32(bits);
    case kE4m3: return small_float(bits & 255, 3);
    case kE5m2: return small_float(bits & 255, 2);
    case kS8: return static_cast<i8>(bits);
    default: return static_cast<u8>(bits);
  }
}

struct Product {
  static constexpr u32 kMostDepth = 32, kMostColumns = 256;
  u32 columns, depth;
  double a[16][kMostDepth];
  double b[kMostDepth][kMostColumns];
  double c[16][kMostColumns];

  void multiply() {
    for (u32 row = 0; row < 16; row++) {
      for (u32 k = 0; k < depth; k++) {
        const double factor = a[row][k];
        for (u32 column = 0; column < columns; column++) c[row][column] += factor * b[k][column];
      }
    }
  }
};

// The place of a lane's element in the sum: two neighbours of a row, then those eight rows below, then the next columns.
static inline u32 sum_row(u32 lane, u32 k) { return lane / 4 + 8 * (k / 2 % 2); }
static inline u32 sum_column(u32 lane, u32 k) { return 8 * (k / 4) + 2 * (lane % 4) + k % 2; }

// Read the sum from registers; `first` is the first of these among all operands.
static inline u32 get_sum(Wave& w, const Record& i, Product& p, u32 first, u32 count, u32 kind) {
  u32 defined = ~0u;
  for (u32 k = 0; k < count; k++) {
    const u32 number = w.group->operands[i.first + first + k];
    const u64* from = w.lanes(number);
    defined &= w.defined[number];
    for (u32 lane = 0; lane < kLanes; lane++) {
      const u32 bits = static_cast<u32>(from[lane]);
      if (kind == kInF16) {
        for (u32 h = 0; h < 2; h++) p.c[sum_row(lane, 2 * k + h)][sum_column(lane, 2 * k + h)] = f16(bits >> 16 * h & 0xffff);
      } else {
        p.c[sum_row(lane, k)][sum_column(lane, k)] = kind == kInS32 ? static_cast<double>(s32(bits)) : f32(bits);
      }
    }
  }
  return defined;
}

static inline u64 sum_bits(double value, u32 kind) {
  if (kind == kInF16) return Format<F16>::put(value, kNearest);
  return kind == kInS32 ? static_cast<u32>(static_cast<i64>(value)) : canonical(static_cast<float>(value));
}

static inline void put_sum(Wave& w, const Record& i, const Product& p, u32 kind, bool defined) {
  for (u32 k = 0; k < i.to; k++) {
    each(w, i, [&](u32 lane) -> u64 {
      if (kind != kInF16) return sum_bits(p.c[sum_row(lane, k)][sum_column(lane, k)], kind);
      const u64 low = sum_bits(p.c[sum_row(lane, 2 * k)][sum_column(lane, 2 * k)], kind);
      return low | sum_bits(p.c[sum_row(lane, 2 * k + 1)][sum_column(lane, 2 * k + 1)], kind) << 16;
    }, k);
    define(w, target(w, i, k), defined ? ~0u : 0);
  }
}

// A factor from registers: a line for each four lanes. The left one has more lines, in `kBlocks` registers in turn.
template <u32 kBlocks, class Place>
static inline bool get_factor(Wave& w, const Record& i, u32 first, u32 count, u32 type, Place place) {
  const u32 size = bytes_of(type), parts = 4 / size;
  bool defined = true;
  for (u32 r = 0; r < count; r++) {
    const u32 number = origin(w, i, first + r);
    defined &= w.defined[number] == ~0u;
    for (u32 lane = 0; lane < kLanes; lane++) {
      for (u32 k = 0; k < parts; k++) {
        const u32 bits = static_cast<u32>(w.lanes(number)[lane]) >> 8 * size * k;
        place(lane / 4 + 8 * (r % kBlocks), lane % 4 * parts + 4 * parts * (r / kBlocks) + k) = element(bits, type);
      }
    }
  }
  return defined;
}

static inline bool get_left(Wave& w, const Record& i, Product& p, u32 first, u32 count, u32 type) {
  return get_factor<2>(w, i, first, count, type, [&](u32 row, u32 k) -> double& { return p.a[row][k]; });
}

static inline bool get_right(Wave& w, const Record& i, Product& p, u32 first, u32 count, u32 type) {
  return get_factor<1>(w, i, first, count, type, [&](u32 column, u32 k) -> double& { return p.b[k][column]; });
}
