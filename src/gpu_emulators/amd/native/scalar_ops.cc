// Scalar arithmetic, logic and comparisons.
#include "scalar_operands.h"

namespace {

// A result that says in SCC whether it is not zero.
static void tested32(Wave& w, const Record& i, u32 value) {
  result32(w, i, value);
  w.scc = value != 0;
}

static void tested64(Wave& w, const Record& i, u64 value) {
  result64(w, i, value);
  w.scc = value != 0;
}

static void flagged(Wave& w, const Record& i, u32 value, bool flag) {
  result32(w, i, value);
  w.scc = flag;
}

static bool overflows(u32 a, u32 b, u32 sum) { return ((a ^ sum) & (b ^ sum)) >> 31; }

// A field of bits, whose offset and width are in one register; the width has seven bits.
static u32 part(u32 value, u32 where) {
  const u32 width = where >> 16 & 127;
  return value >> (where & 31) & (width >= 32 ? ~0u : (1u << width) - 1);
}

static u32 signed_part(u32 value, u32 where) {
  const u32 width = where >> 16 & 127;
  const i32 shifted = s32(value) >> (where & 31);
  if (width == 0 || width >= 32) return width ? static_cast<u32>(shifted) : 0;
  return static_cast<u32>(s32(static_cast<u32>(shifted) << (32 - width)) >> (32 - width));
}

#define SCALAR32(name, statement)                                                              \
  HANDLER(name) {                                                                              \
    [[maybe_unused]] const u32 a = source32(w, i, 0), b = source32(w, i, 1);                   \
    statement;                                                                                 \
  }
#define SCALAR64(name, statement)                                                              \
  HANDLER(name) {                                                                              \
    [[maybe_unused]] const u64 a = source64(w, i, 0), b = source64(w, i, 1);                   \
    statement;                                                                                 \
  }
#define UNARY32(name, statement)                                                               \
  HANDLER(name) {                                                                              \
    const u32 a = source32(w, i, 0);                                                           \
    statement;                                                                                 \
  }
#define UNARY64(name, statement)                                                               \
  HANDLER(name) {                                                                              \
    const u64 a = source64(w, i, 0);                                                           \
    statement;                                                                                 \
  }

SCALAR32(s_add_u32, flagged(w, i, a + b, a + b < a))
SCALAR32(s_sub_u32, flagged(w, i, a - b, b > a))
SCALAR32(s_add_i32, flagged(w, i, a + b, overflows(a, b, a + b)))
SCALAR32(s_sub_i32, flagged(w, i, a - b, ((a ^ b) & (a ^ (a - b))) >> 31))
SCALAR32(s_addc_u32, const u64 sum = static_cast<u64>(a) + b + w.scc; flagged(w, i, static_cast<u32>(sum), sum >> 32 & 1))
SCALAR32(s_subb_u32, const u64 taken = static_cast<u64>(b) + w.scc; flagged(w, i, static_cast<u32>(a - taken), taken > a))
SCALAR32(s_and_b32, tested32(w, i, a & b))
SCALAR32(s_or_b32, tested32(w, i, a | b))
SCALAR32(s_xor_b32, tested32(w, i, a ^ b))
SCALAR32(s_andn2_b32, tested32(w, i, a & ~b))
SCALAR32(s_orn2_b32, tested32(w, i, a | ~b))
SCALAR32(s_nor_b32, tested32(w, i, ~(a | b)))
SCALAR32(s_nand_b32, tested32(w, i, ~(a & b)))
SCALAR32(s_xnor_b32, tested32(w, i, ~(a ^ b)))
SCALAR32(s_lshl_b32, tested32(w, i, a << (b & 31)))
SCALAR32(s_lshr_b32, tested32(w, i, a >> (b & 31)))
SCALAR32(s_ashr_i32, tested32(w, i, static_cast<u32>(s32(a) >> (b & 31))))
SCALAR32(s_bfe_u32, tested32(w, i, part(a, b)))
SCALAR32(s_bfe_i32, tested32(w, i, signed_part(a, b)))
SCALAR32(s_bfm_b32, result32(w, i, ((1u << (a & 31)) - 1) << (b & 31)))
SCALAR32(s_mul_i32, result32(w, i, a * b))
SCALAR32(s_mul_hi_u32, result32(w, i, static_cast<u32>(static_cast<u64>(a) * b >> 32)))
SCALAR32(s_mul_hi_i32, result32(w, i, static_cast<u32>(static_cast<i64>(s32(a)) * s32(b) >> 32)))
SCALAR32(s_cselect_b32, result32(w, i, w.scc ? a : b))
SCALAR32(s_min_i32, flagged(w, i, s32(a) < s32(b) ? a : b, s32(a) < s32(b)))
SCALAR32(s_max_i32, flagged(w, i, s32(a) > s32(b) ? a : b, s32(a) >= s32(b)))
SCALAR32(s_min_u32, flagged(w, i, a < b ? a : b, a < b))
SCALAR32(s_max_u32, flagged(w, i, a > b ? a : b, a >= b))
SCALAR32(s_absdiff_i32, tested32(w, i, s32(a - b) < 0 ? b - a : a - b))
SCALAR32(s_pack_ll_b32_b16, result32(w, i, (a & 0xffff) | b << 16))
SCALAR32(s_pack_lh_b32_b16, result32(w, i, (a & 0xffff) | (b & 0xffff0000)))
SCALAR32(s_pack_hl_b32_b16, result32(w, i, a >> 16 | b << 16))
SCALAR32(s_pack_hh_b32_b16, result32(w, i, a >> 16 | (b & 0xffff0000)))

static void shifted_sum(Wave& w, const Record& i, u32 shift) {
  const u64 sum = (static_cast<u64>(source32(w, i, 0)) << shift) + source32(w, i, 1);
  flagged(w, i, static_cast<u32>(sum), sum >> 32 != 0);
}

HANDLER(s_lshl1_add_u32) { shifted_sum(w, i, 1); }
HANDLER(s_lshl2_add_u32) { shifted_sum(w, i, 2); }
HANDLER(s_lshl3_add_u32) { shifted_sum(w, i, 3); }
HANDLER(s_lshl4_add_u32) { shifted_sum(w, i, 4); }

SCALAR64(s_and_b64, tested64(w, i, a & b))
SCALAR64(s_or_b64, tested64(w, i, a | b))
SCALAR64(s_xor_b64, tested64(w, i, a ^ b))
SCALAR64(s_andn2_b64, tested64(w, i, a & ~b))
SCALAR64(s_orn2_b64, tested64(w, i, a | ~b))
SCALAR64(s_nor_b64, tested64(w, i, ~(a | b)))
SCALAR64(s_nand_b64, tested64(w, i, ~(a & b)))
SCALAR64(s_xnor_b64, tested64(w, i, ~(a ^ b)))
SCALAR64(s_cselect_b64, result64(w, i, w.scc ? a : b))
SCALAR64(s_add_u64, result64(w, i, a + b))
SCALAR64(s_sub_u64, result64(w, i, a - b))
SCALAR64(s_mul_u64, result64(w, i, a * b))
// The bits from an offset on, as many as the width says: both are in the second operand.
static u64 part64(u64 value, u32 control, bool is_signed) {
  const u32 width = control >> 16 & 127;
  if (width == 0) return 0;
  const u64 found = is_signed ? static_cast<u64>(s64(value) >> (control & 63)) : value >> (control & 63);
  if (width >= 64) return found;
  const u64 low = found & ((1ull << width) - 1);
  return is_signed && low >> (width - 1) & 1 ? low | ~0ull << width : low;
}

HANDLER(s_bfe_u64) { tested64(w, i, part64(source64(w, i, 0), source32(w, i, 1), false)); }
HANDLER(s_bfe_i64) { tested64(w, i, part64(source64(w, i, 0), source32(w, i, 1), true)); }
HANDLER(s_lshl_b64) { tested64(w, i, source64(w, i, 0) << (source32(w, i, 1) & 63)); }
HANDLER(s_lshr_b64) { tested64(w, i, source64(w, i, 0) >> (source32(w, i, 1) & 63)); }
HANDLER(s_ashr_i64) { tested64(w, i, static_cast<u64>(s64(source64(w, i, 0)) >> (source32(w, i, 1) & 63))); }

UNARY32(s_mov_b32, result32(w, i, a))
UNARY64(s_mov_b64, result64(w, i, a))
UNARY32(s_cmov_b32, if (w.scc) result32(w, i, a))
UNARY64(s_cmov_b64, if (w.scc) result64(w, i, a))
UNARY32(s_not_b32, tested32(w, i, ~a))
UNARY64(s_not_b64, tested64(w, i, ~a))
UNARY32(s_brev_b32, result32(w, i, reversed(a)))
UNARY32(s_abs_i32, tested32(w, i, s32(a) < 0 ? 0 - a : a))
UNARY32(s_ff1_i32_b32, result32(w, i, a ? static_cast<u32>(__builtin_ctz(a)) : ~0u))
UNARY64(s_ff1_i32_b64, result32(w, i, a ? static_cast<u32>(__builtin_ctzll(a)) : ~0u))
UNARY32(s_flbit_i32_b32, result32(w, i, a ? static_cast<u32>(__builtin_clz(a)) : ~0u))
UNARY32(s_flbit_i32, result32(w, i, equal_bits(a)))
UNARY64(s_flbit_i32_i64, const u64 others = s64(a) < 0 ? ~a : a;
        result32(w, i, others ? static_cast<u32>(__builtin_clzll(others)) : ~0u))
UNARY64(s_brev_b64, result64(w, i, static_cast<u64>(reversed(static_cast<u32>(a))) << 32 | reversed(static_cast<u32>(a >> 32))))
// Of each four bits whether one is set: one bit, or all four.
static u64 quads(u64 value, bool all) {
  u64 result = 0;
  for (u32 k = 0; k < 16; k++) {
    if (value >> 4 * k & 15) result |= all ? 15ull << 4 * k : 1ull << k;
  }
  return result;
}

UNARY32(s_quadmask_b32, tested32(w, i, static_cast<u32>(quads(a, false))))
UNARY64(s_quadmask_b64, tested64(w, i, quads(a, false)))
UNARY32(s_wqm_b32, tested32(w, i, static_cast<u32>(quads(a, true))))
UNARY64(s_wqm_b64, tested64(w, i, quads(a, true)))
UNARY32(s_bcnt0_i32_b32, tested32(w, i, static_cast<u32>(__builtin_popcount(~a))))
UNARY64(s_bcnt0_i32_b64, tested32(w, i, static_cast<u32>(__builtin_popcountll(~a))))
UNARY32(s_ff0_i32_b32, result32(w, i, ~a ? static_cast<u32>(__builtin_ctz(~a)) : ~0u))
UNARY64(s_ff0_i32_b64, result32(w, i, ~a ? static_cast<u32>(__builtin_ctzll(~a)) : ~0u))
UNARY64(s_flbit_i32_b64, result32(w, i, a ? static_cast<u32>(__builtin_clzll(a)) : ~0u))
UNARY32(s_bcnt1_i32_b32, tested32(w, i, static_cast<u32>(__builtin_popcount(a))))
UNARY64(s_bcnt1_i32_b64, tested32(w, i, static_cast<u32>(__builtin_popcountll(a))))
UNARY32(s_sext_i32_i16, result32(w, i, static_cast<u32>(static_cast<i16>(a))))
UNARY32(s_sext_i32_i8, result32(w, i, static_cast<u32>(static_cast<int8_t>(a))))
HANDLER(s_bitset0_b32) { result32(w, i, get_scalar(w, i.scalar_destination) & ~(1u << (source32(w, i, 0) & 31))); }
HANDLER(s_bitset1_b32) { result32(w, i, get_scalar(w, i.scalar_destination) | 1u << (source32(w, i, 0) & 31)); }
static u64 old_result(const Wave& w, const Record& i) {
  return get_scalar(w, i.scalar_destination) | static_cast<u64>(get_scalar(w, i.scalar_destination + 1)) << 32;
}

HANDLER(s_bitset0_b64) { result64(w, i, old_result(w, i) & ~(1ull << (source32(w, i, 0) & 63))); }
HANDLER(s_bitset1_b64) { result64(w, i, old_result(w, i) | 1ull << (source32(w, i, 0) & 63)); }

#define SAVE_EXEC(name, expression)                                \
  HANDLER(s_##name##_saveexec_b64) {                               \
    const u64 a = source64(w, i, 0), exec = w.exec;                \
    result64(w, i, exec);                                          \
    w.exec = (expression);                                         \
    w.scc = w.exec != 0;                                           \
  }                                                                \
  HANDLER(s_##name##_saveexec_b32) {                               \
    const u64 a = source32(w, i, 0), exec = w.exec;                \
    result32(w, i, static_cast<u32>(exec));                        \
    w.exec = (expression) & 0xffffffff;                            \
    w.scc = w.exec != 0;                                           \
  }

SAVE_EXEC(and, a & exec)
SAVE_EXEC(or, a | exec)
SAVE_EXEC(xor, a ^ exec)
SAVE_EXEC(andn2, a & ~exec)
SAVE_EXEC(andn1, ~a & exec)
SAVE_EXEC(orn2, a | ~exec)
SAVE_EXEC(orn1, ~a | exec)
SAVE_EXEC(nand, ~(a & exec))
SAVE_EXEC(nor, ~(a | exec))
SAVE_EXEC(xnor, ~(a ^ exec))

SCALAR32(s_cmp_eq_u32, w.scc = a == b)
SCALAR32(s_cmp_lg_u32, w.scc = a != b)
SCALAR32(s_cmp_lt_u32, w.scc = a < b)
SCALAR32(s_cmp_le_u32, w.scc = a <= b)
SCALAR32(s_cmp_gt_u32, w.scc = a > b)
SCALAR32(s_cmp_ge_u32, w.scc = a >= b)
SCALAR32(s_cmp_eq_i32, w.scc = a == b)
SCALAR32(s_cmp_lg_i32, w.scc = a != b)
SCALAR32(s_cmp_lt_i32, w.scc = s32(a) < s32(b))
SCALAR32(s_cmp_le_i32, w.scc = s32(a) <= s32(b))
SCALAR32(s_cmp_gt_i32, w.scc = s32(a) > s32(b))
SCALAR32(s_cmp_ge_i32, w.scc = s32(a) >= s32(b))
SCALAR64(s_cmp_eq_u64, w.scc = a == b)
SCALAR64(s_cmp_lg_u64, w.scc = a != b)
SCALAR32(s_bitcmp0_b32, w.scc = !(a >> (b & 31) & 1))
SCALAR32(s_bitcmp1_b32, w.scc = a >> (b & 31) & 1)
HANDLER(s_bitcmp0_b64) { w.scc = !(source64(w, i, 0) >> (source32(w, i, 1) & 63) & 1); }
HANDLER(s_bitcmp1_b64) { w.scc = source64(w, i, 0) >> (source32(w, i, 1) & 63) & 1; }
HANDLER(s_bfm_b64) {
  result64(w, i, ((1ull << (source32(w, i, 0) & 63)) - 1) << (source32(w, i, 1) & 63));
}

// With a constant of the instruction, of 16 bits.
#define WITH_CONSTANT(name, statement)                                                      \
  HANDLER(name) {                                                                           \
    await_scalar(w, i, i.scalar_destination);                                               \
    const u32 a = get_scalar(w, i.scalar_destination);                                      \
    [[maybe_unused]] const u32 b = static_cast<u32>(i.immediate), low = b & 0xffff;         \
    statement;                                                                              \
  }

HANDLER(s_movk_i32) { result32(w, i, static_cast<u32>(i.immediate)); }
HANDLER(s_cmovk_i32) { if (w.scc) result32(w, i, static_cast<u32>(i.immediate)); }
WITH_CONSTANT(s_addk_i32, flagged(w, i, a + b, overflows(a, b, a + b)))
WITH_CONSTANT(s_mulk_i32, result32(w, i, a * b))
WITH_CONSTANT(s_cmpk_eq_i32, w.scc = a == b)
WITH_CONSTANT(s_cmpk_lg_i32, w.scc = a != b)
WITH_CONSTANT(s_cmpk_lt_i32, w.scc = s32(a) < s32(b))
WITH_CONSTANT(s_cmpk_le_i32, w.scc = s32(a) <= s32(b))
WITH_CONSTANT(s_cmpk_gt_i32, w.scc = s32(a) > s32(b))
WITH_CONSTANT(s_cmpk_ge_i32, w.scc = s32(a) >= s32(b))
WITH_CONSTANT(s_cmpk_eq_u32, w.scc = a == low)
WITH_CONSTANT(s_cmpk_lg_u32, w.scc = a != low)
WITH_CONSTANT(s_cmpk_lt_u32, w.scc = a < low)
WITH_CONSTANT(s_cmpk_le_u32, w.scc = a <= low)
WITH_CONSTANT(s_cmpk_gt_u32, w.scc = a > low)
WITH_CONSTANT(s_cmpk_ge_u32, w.scc = a >= low)

}  // namespace
