// Floating-point numbers of few bits: rounding to them, and the numbers of 8 bits.
#pragma once

#include <algorithm>

#include "numbers.h"

enum Mode : u32 { kNearest, kZero, kDown, kUp, kAway };  // .rn .rz .rm .rp .rna

static inline double to_whole(double value, u32 mode) {
  switch (mode) {
    case kZero: return std::trunc(value);
    case kDown: return std::floor(value);
    case kUp: return std::ceil(value);
    case kAway: return std::round(value);
    default: return std::nearbyint(value);
  }
}

// A number with so many bits behind the point, and no smaller exponent than `least`; larger ones than `most` overflow.
static inline double rounded(double value, int digits, int least, double most, u32 mode) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int power = std::max(std::ilogb(value), least) - digits;
  const double result = std::ldexp(to_whole(std::ldexp(value, -power), mode), power);
  if (std::fabs(result) <= most) return std::copysign(result, value);
  const bool stays = mode == kZero || (mode == kDown && value > 0) || (mode == kUp && value < 0);
  return std::copysign(stays ? most : INFINITY, value);
}

// 8 bits with three or two digits behind the point: as the Open Compute Project defines them, or AMD's older ones, which
// have no infinity, one zero, and NaN in place of the negative zero.
static inline int small_bias(int digits, bool is_old) { return (digits == 3 ? 7 : 15) + is_old; }

static inline double small_float(u64 bits, int digits, bool is_old = false) {
  const u64 exponent = bits >> digits & ((1u << (7 - digits)) - 1), fraction = bits & ((1u << digits) - 1);
  const double sign = bits >> 7 & 1 ? -1 : 1;
  if (is_old ? bits == 0x80 : digits == 3 && (bits & 127) == 127) return NAN;
  if (!is_old && digits == 2 && exponent == 31) return fraction ? NAN : sign * INFINITY;
  const double number = std::ldexp(static_cast<double>(fraction), -digits) + (exponent ? 1 : 0);
  return sign * std::ldexp(number, std::max(static_cast<int>(exponent), 1) - small_bias(digits, is_old));
}

// The 8 bits nearest to a number. What is too large becomes the largest number where it `saturates`, else infinity or NaN.
static inline u32 small_bits(double value, int digits, bool is_old, bool saturates) {
  const u32 sign = std::signbit(value) ? 0x80 : 0, nan = is_old ? 0x80 : sign | 0x7f;
  if (value != value) return nan;
  const u32 largest = is_old ? 0x7f : digits == 3 ? 0x7e : 0x7b;
  const int least = 1 - small_bias(digits, is_old);
  const double most = small_float(largest, digits, is_old);
  const double size = std::fabs(rounded(value, digits, least, most, kNearest));
  if (size > most) return saturates ? sign | largest : digits == 3 || is_old ? nan : sign | 0x7c;
  if (size == 0) return is_old ? 0 : sign;
  const int power = std::max(std::ilogb(size), least);
  const u32 fraction = static_cast<u32>(std::ldexp(size, digits - power));  // with the one before the point
  return sign | (fraction + (static_cast<u32>(power - least) << digits));
}
