// Floating-point formats: from bits to numbers and back, with each way of rounding.
#pragma once

#include "small_floats.h"

using s8 = int8_t;
using i8 = int8_t;

constexpr double kMostF32 = 0x1.fffffep127, kMostF16 = 65504.0, kMostBf16 = 0x1.fep127, kMostTf32 = 0x1.ffcp127;

// A sum whose last bit tells that it is not exact: rounding it to fewer bits is as rounding the exact one.
static inline double odd_sum(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double added = sum - a, error = (a - (sum - added)) + (b - added);
  if (error != 0 && !(bits64(sum) & 1)) sum = std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
  return sum;
}

static inline double odd_quotient(double a, double b) {
  double quotient = a / b;
  if (!std::isfinite(quotient) || quotient == 0 || std::isinf(b)) return quotient;
  const double rest = std::fma(-quotient, b, a);
  if (rest != 0 && !(bits64(quotient) & 1)) {
    quotient = std::nextafter(quotient, (rest > 0) == (b > 0) ? INFINITY : -INFINITY);
  }
  return quotient;
}

static inline double odd_root(double a) {
  double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  const double rest = std::fma(-root, root, a);
  if (rest != 0 && !(bits64(root) & 1)) root = std::nextafter(root, rest > 0 ? INFINITY : 0.0);
  return root;
}

// The types of PTX that are no types of C++: a number is kept as its bits.
struct F16 { u16 bits; };
struct Bf16 { u16 bits; };

constexpr u32 kNanF32 = 0x7fffffff;
static inline u32 canonical(float value) { return value != value ? kNanF32 : bits(value); }
static inline u32 canonical16(float value) { return value != value ? 0x7fff : bits16(value); }
static inline u32 canonical_bf16(float value) { return value != value ? 0x7fff : bits_bf16(value); }

template <class T> struct Format {  // integers
  static T get(u64 bits) { return static_cast<T>(bits); }
  static u64 put(T value) { return static_cast<u64>(static_cast<std::make_unsigned_t<T>>(value)); }
};
template <> struct Format<float> {
  static float get(u64 bits) { return f32(static_cast<u32>(bits)); }
  static u64 put(float value) { return canonical(value); }
  static u64 put(double value, u32 mode) { return canonical(static_cast<float>(rounded(value, 23, -126, kMostF32, mode))); }
};
template <> struct Format<double> {
  static double get(u64 bits) { return f64(bits); }
  static u64 put(double value) { return value != value ? 0x7fffffffffffffffull : bits64(value); }
};
template <> struct Format<F16> {
  static float get(u64 bits) { return f16(static_cast<u32>(bits)); }
  static u64 put(float value) { return canonical16(value); }
  static u64 put(double value, u32 mode) { return canonical16(static_cast<float>(rounded(value, 10, -14, kMostF16, mode))); }
};
template <> struct Format<Bf16> {
  static float get(u64 bits) { return bf16(static_cast<u32>(bits) & 0xffff); }
  static u64 put(float value) { return canonical_bf16(value); }
  static u64 put(double value, u32 mode) { return canonical_bf16(static_cast<float>(rounded(value, 7, -126, kMostBf16, mode))); }
};

// TF32 in a register of 32 bits; the hardware does not look at the others.
static inline float tf32(u32 bits) { return f32(bits & 0xffffe000); }
