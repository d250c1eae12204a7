// What atomics make of an old value, in global memory and in the LDS.
#pragma once

#include "memory.h"

// The new value of an atomic on integers; `how` is its place in translate_memory.py.
template <class Number, class Signed>
static inline u64 combined(u32 how, Number old, Number value, Number wanted) {
  const Signed signed_old = static_cast<Signed>(old), signed_value = static_cast<Signed>(value);
  switch (how) {
    case 0: return static_cast<Number>(old + value);
    case 1: return value;
    case 2: return signed_old > signed_value ? old : value;
    case 3: return old > value ? old : value;
    case 4: return signed_old < signed_value ? old : value;
    case 5: return old < value ? old : value;
    case 6: return old & value;
    case 7: return old | value;
    case 8: return old ^ value;
    case 9: return static_cast<Number>(old - value);
    case kIncrement: return old >= value ? 0 : static_cast<Number>(old + 1);
    case kDecrement: return old == 0 || old > value ? value : static_cast<Number>(old - 1);
    case kReverse: return static_cast<Number>(value - old);
    default: return old == wanted ? value : old;
  }
}

static inline u32 two_halves(u32 how, u32 old, u32 value) {
  u32 result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const u32 a = old >> shift & 0xffff, b = value >> shift & 0xffff;
    result |= (how == 14 ? bits16(f16(a) + f16(b)) : bits_bf16(bf16(a) + bf16(b))) << shift;
  }
  return result;
}

static inline u64 combined_floats(u32 how, u64 old, u64 value, bool wide) {
  if (how > 13) return two_halves(how, static_cast<u32>(old), static_cast<u32>(value));
  if (!wide) {
    const float a = f32(static_cast<u32>(old)), b = f32(static_cast<u32>(value));
    return bits(how == 11 ? a + b : how == 12 ? maximum(a, b) : minimum(a, b));
  }
  const double a = f64(old), b = f64(value);
  return bits64(how == 11 ? a + b : how == 12 ? std::fmax(a, b) : std::fmin(a, b));
}

static inline u64 combined_by(u32 how, u64 old, u64 value, u64 wanted, bool wide) {
  if (how > 10 && how < kIncrement) return combined_floats(how, old, value, wide);
  if (how == kExchangeFloat) {  // zeros of both signs are equal, and NaN is equal to nothing
    const bool is_equal = wide ? f64(old) == f64(wanted) : f32(static_cast<u32>(old)) == f32(static_cast<u32>(wanted));
    return is_equal ? value : old;
  }
  if (wide) return combined<u64, i64>(how, old, value, wanted);
  return combined<u32, i32>(how, static_cast<u32>(old), static_cast<u32>(value), static_cast<u32>(wanted));
}

static inline u64 data_of(const Wave& w, u32 first, u32 count, u32 lane) {
  const u64 low = w.vector[first][lane];
  return count == 2 ? low | static_cast<u64>(w.vector[first + 1][lane]) << 32 : low;
}
