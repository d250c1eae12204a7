// Comparisons of lanes: a mask with one bit for each.
#include "vector_loops.h"

namespace {

static u32 low16(u32 value) { return value & 0xffff; }
static i32 signed16(u32 value) { return static_cast<i16>(value); }
static u32 all32(u32 value) { return value; }
static u64 all64(u64 value) { return value; }

#define COMPARISON(name, loop, type, read, expression) \
  HANDLER(name) {                                      \
    loop(w, i, [](type left, type right) {             \
      const auto a = read(left);                       \
      const auto b = read(right);                      \
      return expression;                               \
    });                                                \
  }

#define ORDERED(kind, loop, type, read)                   \
  COMPARISON(v_cmp_lt_##kind, loop, type, read, a < b)    \
  COMPARISON(v_cmp_le_##kind, loop, type, read, a <= b)   \
  COMPARISON(v_cmp_gt_##kind, loop, type, read, a > b)    \
  COMPARISON(v_cmp_ge_##kind, loop, type, read, a >= b)   \
  COMPARISON(v_cmp_eq_##kind, loop, type, read, a == b)   \
  COMPARISON(v_cmp_f_##kind, loop, type, read, false && a == b) \
  COMPARISON(v_cmp_t_##kind, loop, type, read, true || a == b)

#define INTEGERS(kind, loop, type, read) \
  ORDERED(kind, loop, type, read)        \
  COMPARISON(v_cmp_ne_##kind, loop, type, read, a != b)

#define FLOATS(kind, loop, type, read)                            \
  ORDERED(kind, loop, type, read)                                 \
  COMPARISON(v_cmp_neq_##kind, loop, type, read, a != b)          \
  COMPARISON(v_cmp_lg_##kind, loop, type, read, a < b || a > b)   \
  COMPARISON(v_cmp_nlg_##kind, loop, type, read, !(a < b || a > b)) \
  COMPARISON(v_cmp_nlt_##kind, loop, type, read, !(a < b))        \
  COMPARISON(v_cmp_nle_##kind, loop, type, read, !(a <= b))       \
  COMPARISON(v_cmp_ngt_##kind, loop, type, read, !(a > b))        \
  COMPARISON(v_cmp_nge_##kind, loop, type, read, !(a >= b))       \
  COMPARISON(v_cmp_u_##kind, loop, type, read, a != a || b != b)  \
  COMPARISON(v_cmp_o_##kind, loop, type, read, a == a && b == b)

template <class Operation>
static void compare_wide(Wave& w, const Record& i, Operation operation) {
  compare64(w, i, 1, operation);
}

template <class Operation>
static void compare_doubles(Wave& w, const Record& i, Operation operation) {
  compare64(w, i, 1, [&](u64 a, u64 b) { return operation(with_signs(i, 0, a), with_signs(i, 1, b)); });
}

static double as_it_is(double value) { return value; }

INTEGERS(u32, compare<kNone>, u32, all32)
INTEGERS(i32, compare<kNone>, u32, s32)
INTEGERS(u16, compare<kHalf>, u32, low16)
INTEGERS(i16, compare<kHalf>, u32, signed16)
INTEGERS(u64, compare_wide, u64, all64)
INTEGERS(i64, compare_wide, u64, s64)
FLOATS(f32, compare<kFloat>, u32, f32)
FLOATS(f16, compare<kHalf>, u32, f16)
FLOATS(f64, compare_doubles, double, as_it_is)

// The class of a number whose mantissa and exponent have so many bits.
static u32 class_of(u64 value, u32 mantissa_bits, u32 exponent_bits) {
  const u64 mantissa = value & ((1ull << mantissa_bits) - 1), most = (1ull << exponent_bits) - 1;
  const u64 exponent = value >> mantissa_bits & most;
  const bool negative = value >> (mantissa_bits + exponent_bits) & 1;
  if (exponent == most && mantissa) return mantissa >> (mantissa_bits - 1) & 1 ? 1 : 0;  // quiet, signalling
  if (exponent == most) return negative ? 2 : 9;
  if (exponent == 0 && mantissa == 0) return negative ? 5 : 6;
  if (exponent == 0) return negative ? 4 : 7;
  return negative ? 3 : 8;
}

template <Modifiers M, u32 mantissa_bits, u32 exponent_bits>
static void compare_class(Wave& w, const Record& i) {
  Lanes room[3];
  w.mask = w.exec;
  const bool is_wide = mantissa_bits == 52;
  const Read a = source<M>(w, i, 0, room[0].value), b = source<kNone>(w, i, 1, room[1].value);
  const Read high = is_wide ? source<kNone>(w, i, 0, room[2].value, 1) : a;
  u64 result = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    u64 value = a.value[lane];
    if (is_wide) value = bits64(with_signs(i, 0, value | static_cast<u64>(high.value[lane]) << 32));
    result |= static_cast<u64>(b.value[lane] >> class_of(value, mantissa_bits, exponent_bits) & 1) << lane;
  }
  put_comparison(w, i, result);
}

HANDLER(v_cmp_class_f16) { compare_class<kHalf, 10, 5>(w, i); }
HANDLER(v_cmp_class_f32) { compare_class<kFloat, 23, 8>(w, i); }
HANDLER(v_cmp_class_f64) { compare_class<kNone, 52, 11>(w, i); }

}  // namespace
