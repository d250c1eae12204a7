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
  COMPARISON(v_cmp_eq_##kind, loop, type, read, a == b)

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

INTEGERS(u32, compare<kNone>, u32, all32)
INTEGERS(i32, compare<kNone>, u32, s32)
INTEGERS(u16, compare<kHalf>, u32, low16)
INTEGERS(i16, compare<kHalf>, u32, signed16)
INTEGERS(u64, compare_wide, u64, all64)
INTEGERS(i64, compare_wide, u64, s64)
FLOATS(f32, compare<kFloat>, u32, f32)
FLOATS(f16, compare<kHalf>, u32, f16)

// The class of a number, as one bit of ten.
static u32 class_of(u32 value) {
  const float x = f32(value);
  const bool negative = std::signbit(x);
  if (x != x) return value >> 22 & 1 ? 1 : 0;  // quiet, signalling
  if (std::isinf(x)) return negative ? 2 : 9;
  if (x == 0) return negative ? 5 : 6;
  if (exponent(x) == 0) return negative ? 4 : 7;
  return negative ? 3 : 8;
}

// Only the first operand is a number, whose sign may be changed.
HANDLER(v_cmp_class_f32) {
  Lanes room[2];
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room[0].value), b = source<kNone>(w, i, 1, room[1].value);
  u64 result = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    result |= static_cast<u64>(b.value[lane] >> class_of(a.value[lane]) & 1) << lane;
  }
  put_comparison(w, i, result);
}

}  // namespace
