// Products of the parts of two registers, and their sum with a third operand.
#include "vector_loops.h"

namespace {

// The integer of so many bits at a place of a register.
static i32 part_of(u32 all, u32 place, u32 bits, bool is_signed) {
  const u32 value = all >> place * bits & ((1u << bits) - 1);
  return static_cast<i32>(is_signed && value >> (bits - 1) ? value | ~0u << bits : value);
}

template <u32 Bits>
static u32 integers(u32 a, u32 b, u32 sum, bool signed_a, bool signed_b) {
  for (u32 k = 0; k < 32 / Bits; k++) {
    sum += static_cast<u32>(part_of(a, k, Bits, signed_a)) * static_cast<u32>(part_of(b, k, Bits, signed_b));
  }
  return sum;
}

static float half_of(u32 all, u32 place) { return f16(all >> 16 * place & 0xffff); }
static float brain_of(u32 all, u32 place) { return bf16(all >> 16 * place & 0xffff); }

// Each product is exact; each sum is rounded. The halves of a source may have other signs.
template <class Number>
static u32 floats(const Record& i, u32 a, u32 b, u32 sum, Number number, bool sum_is_last = false) {
  const auto with_signs = [&](u32 all, u32 place) {
    return all ^ (i.negate >> place & 1) << 15 ^ (i.negate_high >> place & 1) << 31;
  };
  const u32 x = with_signs(a, 0), y = with_signs(b, 1);
  const float third = i.negate >> 2 & 1 ? -f32(sum) : f32(sum), low = number(x, 0) * number(y, 0);
  const float high = number(x, 1) * number(y, 1);
  return bits(modified(sum_is_last ? low + high + third : third + low + high, i));
}

// Added to the third source, or to what the destination holds.
template <class Operation>
static void added(Wave& w, const Record& i, bool to_result, Operation operation) {
  Record with_sum = i;
  if (to_result) with_sum.source[2] = {kVector, i.destination, 0};
  with_sum.clamp = 0;
  each<kNone, 3>(w, with_sum, operation);
}

#define DOT(count, kinds, expression)                                                                              \
  HANDLER(v_dot##count##_##kinds) { added(w, i, false, [&](u32 a, u32 b, u32 c) { return expression; }); }         \
  HANDLER(v_dot##count##c_##kinds) { added(w, i, true, [&](u32 a, u32 b, u32 c) { return expression; }); }

DOT(2, i32_i16, integers<16>(a, b, c, true, true))
DOT(2, u32_u16, integers<16>(a, b, c, false, false))
DOT(4, i32_i8, integers<8>(a, b, c, true, true))
DOT(4, u32_u8, integers<8>(a, b, c, false, false))
DOT(8, i32_i4, integers<4>(a, b, c, true, true))
DOT(8, u32_u4, integers<4>(a, b, c, false, false))
DOT(4, i32_iu8, integers<8>(a, b, c, i.negate & 1, i.negate >> 1 & 1))
DOT(8, i32_iu4, integers<4>(a, b, c, i.negate & 1, i.negate >> 1 & 1))
DOT(2, f32_f16, floats(i, a, b, c, half_of))
HANDLER(v_dot2_f32_bf16) {
  const bool sum_is_last = w.family == kCdna;
  added(w, i, false, [&](u32 a, u32 b, u32 c) { return floats(i, a, b, c, brain_of, sum_is_last); });
}
HANDLER(v_dot2c_f32_bf16) { added(w, i, true, [&](u32 a, u32 b, u32 c) { return floats(i, a, b, c, brain_of); }); }

}  // namespace
