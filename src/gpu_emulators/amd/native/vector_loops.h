// Loops over lanes: from an operation on numbers to an instruction on registers.
#pragma once

#include <algorithm>

#include "vector_operands.h"

enum Clamp : u32 { kToOne = 1, kToRange };  // of floating-point numbers, and of integers

// What a clamp makes of a result of 16 bits; without one it wraps.
static inline u32 unsigned16(const Record& i, i32 value) {
  return static_cast<u16>(i.clamp ? std::clamp(value, 0, 65535) : value);
}
static inline u32 signed16(const Record& i, i32 value) {
  return static_cast<u16>(i.clamp ? std::clamp(value, -32768, 32767) : value);
}
static inline i16 s16(u32 a) { return static_cast<i16>(a); }

alignas(64) static const u32 kZeros[kLanes] = {};

// Write a half of a register. The other half stays, or becomes zero.
static inline void put_half(Wave& w, const Record& i, u32* result, u64 defined) {
  const bool high = i.half >> 3 & 1;
  if (!high && !i.parameter[5]) return put_result(w, i, result, defined);
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u32 old = w.vector[i.destination][lane];
    result[lane] = high ? (old & 0xffff) | result[lane] << 16 : (old & 0xffff0000) | (result[lane] & 0xffff);
  }
  Known known = w.defined[i.destination];
  known.half[high] = defined;
  put_result(w, i, result, known, w.family == kCdna ? 3 : 1 << high);
}

// What is known of a result where an operand is not, or only one half of it: a half of the result that stays the same,
// whatever the unknown bits may be. All zeros and all ones are tried, and of integers more. A number that is unknown as a
// whole makes a result of floats unknown: zero and NaN tell too little.
constexpr u32 kTried[] = {0, ~0u, 0x55555555, 0xaaaaaaaa, 0x7fffffff, 0x80000000};

using Applied = u32(const void* operation, u32 a, u32 b, u32 c);

static Known tried(const Read* read, int count, u64 lanes, Known known, const u32* result, bool of_bits, Applied* apply,
                   const void* operation) {
  for (; lanes; lanes &= lanes - 1) {
    const u32 lane = static_cast<u32>(__builtin_ctzll(lanes));
    u32 value[3] = {read[0].value[lane], read[1].value[lane], read[2].value[lane]}, changed = 0;
    for (int place = 0; place < count; place++) {
      const u32 old = value[place], low = read[place].defined.half[0] >> lane & 1 ? 0 : 0xffff;
      const u32 lacking = low | (read[place].defined.half[1] >> lane & 1 ? 0 : 0xffff0000);
      if (!lacking) continue;
      for (int k = 0; k < (of_bits ? 6 : 2); k++) {
        value[place] = (old & ~lacking) | (kTried[k] & lacking);
        changed |= !of_bits && lacking == ~0u ? ~0u : apply(operation, value[0], value[1], value[2]) ^ result[lane];
      }
      value[place] = old;
    }
    known.take(lane, {!(changed & 0xffff), !(changed >> 16)}, 0);
  }
  return known;
}

template <class Operation>
static inline Known known_of(const Wave& w, const Read* read, int count, const u32* result, Operation operation,
                             bool of_bits = false) {
  Known all = ~0ull;
  u64 lacking = 0;
  for (int place = 0; place < count; place++) {
    const Known& known = read[place].defined;
    all = all & known, lacking |= of_bits ? ~known : known.half[0] ^ known.half[1];
  }
  lacking &= w.exec;
  if (!lacking) return all;
  const auto apply = [](const void* given, u32 a, u32 b, u32 c) -> u32 {
    return (*static_cast<const Operation*>(given))(a, b, c);
  };
  return tried(read, count, lacking, all, result, of_bits, apply, &operation);
}

// An instruction with `Count` sources and a result of 32 bits, or of 16 bits where M is kHalf.
template <Modifiers M, int Count, class Operation>
static inline void each(Wave& w, const Record& i, Operation operation) {
  Lanes room[3], result;
  Read read[3] = {{kZeros, ~0ull}, {kZeros, ~0ull}, {kZeros, ~0ull}};
  w.mask = w.exec;
  for (int place = 0; place < Count; place++) read[place] = source<M>(w, i, place, room[place].value);
  const u32 *a = read[0].value, *b = read[1].value, *c = read[2].value;
  for (u32 lane = 0; lane < kLanes; lane++) result.value[lane] = operation(a[lane], b[lane], c[lane]);
  const Known known = known_of(w, read, Count, result.value, operation, M == kNone);
  if (M == kFloat && i.precision == kSingle && !keeps_results(w.mode)) {
    for (u32& value : result.value) value = bits(flushed(f32(value)));
  }
  if (M == kFloat && (i.scale | i.clamp)) {
    for (u32& value : result.value) value = bits(modified(f32(value), i));
  }
  if (M == kHalf) {
    if (i.scale || i.clamp == kToOne) {
      for (u32& value : result.value) value = bits16(modified(f16(value), i));
    }
    return put_half(w, i, result.value, known);
  }
  put_result(w, i, result.value, known);
}

#define VECTOR(name, modifiers, count, expression)                                                               \
  HANDLER(name) {                                                                                                \
    each<modifiers, count>(w, i, [&]([[maybe_unused]] u32 a, [[maybe_unused]] u32 b, [[maybe_unused]] u32 c) -> u32 { \
      return expression;                                                                                         \
    });                                                                                                          \
  }

// An instruction on 64 bits; bit n of `wide` says that source n has 64 bits. Where bits only go `upwards`, as in a sum,
// the low half of the result does not depend on the high halves of the sources.
template <int Count, class Operation>
static inline void each64(Wave& w, const Record& i, u32 wide, Operation operation, bool upwards = false) {
  Lanes room[6], low, high;
  Read read[3][2];
  u64 defined_low = ~0ull, defined = ~0ull;
  w.mask = w.exec;
  for (int place = 0; place < Count; place++) {
    const bool is_wide = wide >> place & 1;
    read[place][0] = source<kNone>(w, i, place, room[2 * place].value);
    read[place][1] = is_wide ? source<kNone>(w, i, place, room[2 * place + 1].value, 1) : Read{nullptr, ~0ull};
    defined_low &= read[place][0].defined;
    defined &= read[place][0].defined & read[place][1].defined;
  }
  for (u32 lane = 0; lane < kLanes; lane++) {
    u64 value[3] = {};
    for (int place = 0; place < Count; place++) {
      value[place] = read[place][0].value[lane];
      if (wide >> place & 1) value[place] |= static_cast<u64>(read[place][1].value[lane]) << 32;
    }
    const u64 result = operation(value[0], value[1], value[2]);
    low.value[lane] = static_cast<u32>(result), high.value[lane] = static_cast<u32>(result >> 32);
  }
  await_vector(w, i, i.destination);
  await_vector(w, i, i.destination + 1);
  put(w, i.destination, low.value, upwards ? defined_low : defined);
  put(w, i.destination + 1, high.value, defined);
}

static inline double with_signs(const Record& i, int place, u64 value) {
  if (i.absolute >> place & 1) value &= ~(1ull << 63);
  if (i.negate >> place & 1) value ^= 1ull << 63;
  return f64(value);
}

template <int Count, class Operation>
static inline void each_double(Wave& w, const Record& i, Operation operation) {
  each64<Count>(w, i, (1 << Count) - 1, [&](u64 a, u64 b, u64 c) {
    return bits64(operation(with_signs(i, 0, a), with_signs(i, 1, b), with_signs(i, 2, c)));
  });
}

// The bits of a comparison into its destination; v_cmpx writes EXEC too.
static inline void put_comparison(Wave& w, const Record& i, u64 result) {
  result &= w.exec;
  set_lane_mask(w, i.scalar_destination, result);
  if (i.parameter[0]) w.exec = result;
}

// A comparison of 32 or 16 bits: one bit for each lane.
template <Modifiers M, class Operation>
static inline void compare(Wave& w, const Record& i, Operation operation) {
  Lanes room[2];
  w.mask = w.exec;
  const Read a = source<M>(w, i, 0, room[0].value), b = source<M>(w, i, 1, room[1].value);
  u64 result = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    result |= static_cast<u64>(operation(a.value[lane], b.value[lane]) ? 1 : 0) << lane;
  }
  put_comparison(w, i, result);
}

template <class Operation>
static inline void compare64(Wave& w, const Record& i, u32 wide, Operation operation) {
  Lanes room[4];
  w.mask = w.exec;
  u64 result = 0;
  const Read a[2] = {source<kNone>(w, i, 0, room[0].value), source<kNone>(w, i, 0, room[1].value, 1)};
  const Read b[2] = {source<kNone>(w, i, 1, room[2].value), wide ? source<kNone>(w, i, 1, room[3].value, 1) : Read{}};
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const u64 left = a[0].value[lane] | static_cast<u64>(a[1].value[lane]) << 32;
    const u64 right = b[0].value[lane] | (wide ? static_cast<u64>(b[1].value[lane]) << 32 : 0);
    result |= static_cast<u64>(operation(left, right) ? 1 : 0) << lane;
  }
  put_comparison(w, i, result);
}
