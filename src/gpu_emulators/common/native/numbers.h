// Numbers: conversions between bits and values, and the arithmetic that several instructions share.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using half = _Float16;

template <class To, class From>
static inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

static inline i32 s32(u32 value) { return static_cast<i32>(value); }
static inline i64 s64(u64 value) { return static_cast<i64>(value); }
static inline float f32(u32 bits) { return bits_as<float>(bits); }
static inline u32 bits(float value) { return bits_as<u32>(value); }
static inline double f64(u64 bits) { return bits_as<double>(bits); }
static inline u64 bits64(double value) { return bits_as<u64>(value); }
static inline float f16(u32 bits) { return static_cast<float>(bits_as<half>(static_cast<u16>(bits))); }

// Whether the result of finite numbers stays finite in 16 or 8 bits: AMD's MODE can ask for it.
static thread_local bool stays_finite = false;

static inline u32 kept_finite(u32 bits, u32 infinity, bool is_finite) {
  return bits - (stays_finite && is_finite && (bits & 0x7fff) == infinity);
}

template <class Number>
static inline u32 bits16(Number value) {
  return kept_finite(bits_as<u16>(static_cast<half>(value)), 0x7c00, std::isfinite(value));
}
static inline float bf16(u32 bits) { return f32(bits << 16); }

// A number in bf16, rounded to nearest even.
static inline u32 bits_bf16(float value) {
  const u32 all = bits(value);
  return value != value ? (all >> 16 | 64) : kept_finite((all + 0x7fff + (all >> 16 & 1)) >> 16, 0x7f80, std::isfinite(value));
}

// A number in fp16, rounded towards zero.
static inline u32 bits16_towards_zero(float value) {
  const u32 near = bits16(value);
  return std::fabs(f16(near)) > std::fabs(value) && !std::isinf(value) ? near - 1 : near;
}

// The units for exp, log, rcp and rsq take and give zero for a subnormal number.
static inline float flushed(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value; }

static inline u32 exponent(float value) { return bits(value) >> 23 & 255; }

// IEEE 754-2008 maxNum and minNum: of a number and a NaN the number.
template <class Float>
static inline Float maximum(Float a, Float b) {
  if (a != a) return b;
  if (b != b) return a;
  return a > b ? a : b > a ? b : std::signbit(a) ? b : a;
}

template <class Float>
static inline Float minimum(Float a, Float b) {
  if (a != a) return b;
  if (b != b) return a;
  return a < b ? a : b < a ? b : std::signbit(a) ? a : b;
}

// IEEE 754-2019 maximum and minimum: of a number and a NaN the NaN.
static inline float maximum_or_nan(float a, float b) { return a != a ? a : b != b ? b : maximum(a, b); }
static inline float minimum_or_nan(float a, float b) { return a != a ? a : b != b ? b : minimum(a, b); }

static inline float median(float a, float b, float c) {
  if (a != a || b != b || c != c) return minimum(minimum(a, b), c);
  const float most = maximum(maximum(a, b), c);
  return most == a ? maximum(b, c) : most == b ? maximum(a, c) : maximum(a, b);
}

static inline i32 to_i32(float value) {
  if (value != value) return 0;
  return value >= 0x1p31f ? INT32_MAX : value <= -0x1p31f ? INT32_MIN : static_cast<i32>(value);
}

static inline u32 to_u32(float value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p32f ? UINT32_MAX : static_cast<u32>(value);
}

static inline u32 field(u32 value, u32 offset, u32 width) {
  offset &= 31, width &= 31;
  if (width == 0) return 0;
  return offset + width < 32 ? value << (32 - offset - width) >> (32 - width) : value >> offset;
}

static inline u32 signed_field(u32 value, u32 offset, u32 width) {
  offset &= 31, width &= 31;
  if (width == 0) return 0;
  const u32 top = offset + width < 32 ? value << (32 - offset - width) : value;
  const u32 shift = offset + width < 32 ? 32 - width : offset;
  return static_cast<u32>(static_cast<i32>(top) >> shift);
}

static inline u32 reversed(u32 value) {
  u32 result = 0;
  for (int bit = 0; bit < 32; bit++) result |= (value >> bit & 1) << (31 - bit);
  return result;
}

// How many of the highest bits are the same; all ones where all are.
static inline u32 equal_bits(u32 value) {
  const u32 others = static_cast<i32>(value) < 0 ? ~value : value;
  return others ? static_cast<u32>(__builtin_clz(others)) : ~0u;
}

static inline i32 signed24(u32 value) { return static_cast<i32>(value << 8) >> 8; }

// The bytes of `high` and `low` that a selector names: v_perm_b32.
static inline u32 permuted(u32 high, u32 low, u32 selector) {
  const u64 both = static_cast<u64>(high) << 32 | low;
  u32 result = 0;
  for (int byte = 0; byte < 4; byte++) {
    const u32 which = selector >> 8 * byte & 255;
    u32 value = 0;
    if (which < 8) value = both >> 8 * which & 255;
    else if (which < 12) value = both >> (16 * (which - 8) + 15) & 1 ? 255 : 0;
    else value = which == 12 ? 0 : 255;
    result |= value << 8 * byte;
  }
  return result;
}
