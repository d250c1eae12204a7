// Arithmetic and logic on integers of 16, 32 and 64 bits on lanes.
#include <algorithm>

#include "vector_loops.h"

namespace {

VECTOR(v_mov_b32, kNone, 1, a)
VECTOR(v_not_b32, kNone, 1, ~a)
VECTOR(v_bfrev_b32, kNone, 1, reversed(a))
VECTOR(v_accvgpr_read, kNone, 1, a)
VECTOR(v_accvgpr_write, kNone, 1, a)
VECTOR(v_accvgpr_mov_b32, kNone, 1, a)
VECTOR(v_ffbh_u32, kNone, 1, a ? static_cast<u32>(__builtin_clz(a)) : ~0u)
VECTOR(v_ffbh_i32, kNone, 1, equal_bits(a))
VECTOR(v_ffbl_b32, kNone, 1, a ? static_cast<u32>(__builtin_ctz(a)) : ~0u)

// With the clamp a sum ends at the largest number, and a difference at zero.
VECTOR(v_add_u32, kNone, 2, i.clamp && a + b < a ? ~0u : a + b)
VECTOR(v_sub_u32, kNone, 2, i.clamp && a < b ? 0 : a - b)
VECTOR(v_subrev_u32, kNone, 2, i.clamp && b < a ? 0 : b - a)
// A result that is kept inside 32 bits with a sign, where a clamp asks for that.
static u32 signed32(const Record& i, i64 value) {
  return static_cast<u32>(i.clamp ? std::clamp<i64>(value, INT32_MIN, INT32_MAX) : value);
}

VECTOR(v_add_i32, kNone, 2, signed32(i, static_cast<i64>(s32(a)) + s32(b)))
VECTOR(v_sub_i32, kNone, 2, signed32(i, static_cast<i64>(s32(a)) - s32(b)))
VECTOR(v_and_b32, kNone, 2, a & b)
VECTOR(v_or_b32, kNone, 2, a | b)
VECTOR(v_xor_b32, kNone, 2, a ^ b)
VECTOR(v_xnor_b32, kNone, 2, ~(a ^ b))
VECTOR(v_lshlrev_b32, kNone, 2, b << (a & 31))
VECTOR(v_lshrrev_b32, kNone, 2, b >> (a & 31))
VECTOR(v_ashrrev_i32, kNone, 2, static_cast<u32>(static_cast<i32>(b) >> (a & 31)))
VECTOR(v_max_i32, kNone, 2, static_cast<i32>(a) > static_cast<i32>(b) ? a : b)
VECTOR(v_min_i32, kNone, 2, static_cast<i32>(a) < static_cast<i32>(b) ? a : b)
VECTOR(v_max_u32, kNone, 2, a > b ? a : b)
VECTOR(v_min_u32, kNone, 2, a < b ? a : b)
VECTOR(v_max3_i32, kNone, 3, static_cast<u32>(std::max({static_cast<i32>(a), static_cast<i32>(b), static_cast<i32>(c)})))
VECTOR(v_min3_i32, kNone, 3, static_cast<u32>(std::min({static_cast<i32>(a), static_cast<i32>(b), static_cast<i32>(c)})))
VECTOR(v_max3_u32, kNone, 3, std::max({a, b, c}))
VECTOR(v_min3_u32, kNone, 3, std::min({a, b, c}))
VECTOR(v_med3_i32, kNone, 3,
       static_cast<u32>(std::max(std::min(static_cast<i32>(a), static_cast<i32>(b)),
                                 std::min(std::max(static_cast<i32>(a), static_cast<i32>(b)), static_cast<i32>(c)))))
VECTOR(v_med3_u32, kNone, 3, std::max(std::min(a, b), std::min(std::max(a, b), c)))
VECTOR(v_mul_lo_u32, kNone, 2, a * b)
VECTOR(v_mul_hi_u32, kNone, 2, static_cast<u32>(static_cast<u64>(a) * b >> 32))
VECTOR(v_mul_hi_i32, kNone, 2, static_cast<u32>(static_cast<i64>(static_cast<i32>(a)) * static_cast<i32>(b) >> 32))
VECTOR(v_mul_u32_u24, kNone, 2, (a & 0xffffff) * (b & 0xffffff))
VECTOR(v_mul_i32_i24, kNone, 2, static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b)))
VECTOR(v_mul_hi_u32_u24, kNone, 2, static_cast<u32>(static_cast<u64>(a & 0xffffff) * (b & 0xffffff) >> 32))
VECTOR(v_mul_hi_i32_i24, kNone, 2, static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b) >> 32))
VECTOR(v_bfm_b32, kNone, 2, ((1u << (a & 31)) - 1) << (b & 31))
VECTOR(v_bcnt_u32_b32, kNone, 2, static_cast<u32>(__builtin_popcount(a)) + b)

VECTOR(v_maxmin_i32, kNone, 3, static_cast<u32>(std::min(std::max(s32(a), s32(b)), s32(c))))
VECTOR(v_minmax_i32, kNone, 3, static_cast<u32>(std::max(std::min(s32(a), s32(b)), s32(c))))
VECTOR(v_maxmin_u32, kNone, 3, std::min(std::max(a, b), c))
VECTOR(v_minmax_u32, kNone, 3, std::max(std::min(a, b), c))
// Sums of the distances of bytes or halves; a byte that is zero in the second source may be left out.
template <u32 Bits>
static u32 distances(u32 a, u32 b, bool is_masked = false) {
  u32 sum = 0;
  for (u32 shift = 0; shift < 32; shift += Bits) {
    const u32 x = a >> shift & ((1u << Bits) - 1), y = b >> shift & ((1u << Bits) - 1);
    if (!is_masked || y) sum += x > y ? x - y : y - x;
  }
  return sum;
}

// The means of bytes, rounded up where the lowest bit of the third source's byte says so.
static u32 means(u32 a, u32 b, u32 c) {
  u32 result = 0;
  for (u32 shift = 0; shift < 32; shift += 8) result |= ((a >> shift & 255) + (b >> shift & 255) + (c >> shift & 1)) >> 1 << shift;
  return result;
}

VECTOR(v_lerp_u8, kNone, 3, means(a, b, c))
VECTOR(v_sad_u8, kNone, 3, distances<8>(a, b) + c)
VECTOR(v_sad_hi_u8, kNone, 3, (distances<8>(a, b) << 16) + c)
VECTOR(v_msad_u8, kNone, 3, distances<8>(a, b, true) + c)
VECTOR(v_sad_u16, kNone, 3, distances<16>(a, b) + c)
VECTOR(v_sad_u32, kNone, 3, (a > b ? a - b : b - a) + c)
VECTOR(v_lshl_add_u32, kNone, 3, (a << (b & 31)) + c)
VECTOR(v_add_lshl_u32, kNone, 3, (a + b) << (c & 31))
VECTOR(v_add3_u32, kNone, 3, a + b + c)
VECTOR(v_lshl_or_b32, kNone, 3, (a << (b & 31)) | c)
VECTOR(v_and_or_b32, kNone, 3, (a & b) | c)
VECTOR(v_or3_b32, kNone, 3, a | b | c)
VECTOR(v_xor3_b32, kNone, 3, a ^ b ^ c)
VECTOR(v_xad_u32, kNone, 3, (a ^ b) + c)
VECTOR(v_mad_u32, kNone, 3, a * b + c)
VECTOR(v_mad_u32_u24, kNone, 3, (a & 0xffffff) * (b & 0xffffff) + c)
VECTOR(v_mad_i32_i24, kNone, 3, static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b)) + c)
VECTOR(v_bfe_u32, kNone, 3, field(a, b, c))
VECTOR(v_bfe_i32, kNone, 3, signed_field(a, b, c))
VECTOR(v_bfi_b32, kNone, 3, (a & b) | (~a & c))
VECTOR(v_perm_b32, kNone, 3, permuted(a, b, c))
VECTOR(v_alignbit_b32, kNone, 3, static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (c & 31)))
VECTOR(v_alignbyte_b32, kNone, 3, static_cast<u32>((static_cast<u64>(a) << 32 | b) >> 8 * (c & 3)))

// Any function of three bits: `target` has its table.
static u32 table_of_bits(u32 table, u32 a, u32 b, u32 c) {
  u32 result = 0;
  for (u32 k = 0; k < 8; k++) {
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  }
  return result;
}

VECTOR(v_bitop3_b32, kNone, 3, table_of_bits(i.target, a, b, c))
VECTOR(v_bitop3_b16, kHalf, 3, table_of_bits(i.target, a, b, c) & 0xffff)

// The halves that op_sel names, and a sum of 32 bits.
template <class Product>
static void product_of_halves(Wave& w, const Record& i, Product product) {
  each<kNone, 3>(w, i, [&](u32 a, u32 b, u32 c) { return product(a >> 16 * (i.half & 1), b >> 16 * (i.half >> 1 & 1)) + c; });
}

HANDLER(v_mad_u32_u16) { product_of_halves(w, i, [](u32 a, u32 b) { return (a & 0xffff) * (b & 0xffff); }); }
HANDLER(v_mad_i32_i16) {
  product_of_halves(w, i, [](u32 a, u32 b) { return static_cast<u32>(static_cast<i16>(a) * static_cast<i16>(b)); });
}

VECTOR(v_max_u16, kHalf, 2, std::max(a & 0xffff, b & 0xffff))
VECTOR(v_min_u16, kHalf, 2, std::min(a & 0xffff, b & 0xffff))
VECTOR(v_max_i16, kHalf, 2, static_cast<u16>(std::max(static_cast<i16>(a), static_cast<i16>(b))))
VECTOR(v_min_i16, kHalf, 2, static_cast<u16>(std::min(static_cast<i16>(a), static_cast<i16>(b))))
VECTOR(v_mul_lo_u16, kHalf, 2, (a & 0xffff) * (b & 0xffff) & 0xffff)
VECTOR(v_lshlrev_b16, kHalf, 2, (b << (a & 15)) & 0xffff)
VECTOR(v_lshrrev_b16, kHalf, 2, (b & 0xffff) >> (a & 15))
VECTOR(v_ashrrev_i16, kHalf, 2, static_cast<u32>(static_cast<i16>(b) >> (a & 15)) & 0xffff)
VECTOR(v_and_b16, kHalf, 2, a & b & 0xffff)
VECTOR(v_or_b16, kHalf, 2, (a | b) & 0xffff)
VECTOR(v_xor_b16, kHalf, 2, (a ^ b) & 0xffff)
VECTOR(v_mov_b16, kHalf, 1, a & 0xffff)

// Of RDNA: a register whose number M0 adds to. Behind the last one it is the first one.
static u32 further(Wave& w, const Record& i, u32 number) {
  const u64 sum = static_cast<u64>(number) + w.scalar[kM0];
  if (sum >= kEncoded && w.registers > 2 * kEncoded) report(w, i, kUnknown, sum, 3);
  return sum < kEncoded ? static_cast<u32>(sum) : 0;
}

HANDLER(v_movrels_b32) {
  Lanes copy;
  const u32 from = further(w, i, i.source[0].number);
  w.mask = w.exec;
  await_vector(w, i, from);
  memcpy(copy.value, w.vector[from], sizeof copy.value);
  put_result(w, i, copy.value, w.defined[from]);
}

HANDLER(v_movreld_b32) {
  Lanes room;
  const u32 to = further(w, i, i.destination);
  w.mask = w.exec;
  const Read from = source<kNone>(w, i, 0, room.value);
  await_vector(w, i, to);
  put(w, to, from.value, from.defined);
}

// Two registers exchange what they hold.
HANDLER(v_swap_b32) {
  const u32 other = i.source[0].number;
  Lanes room[2];
  w.mask = w.exec;
  await_vector(w, i, other);
  await_vector(w, i, i.destination);
  memcpy(room[0].value, w.vector[other], sizeof room[0].value);
  memcpy(room[1].value, w.vector[i.destination], sizeof room[1].value);
  const Known known[2] = {w.defined[other], w.defined[i.destination]};
  put(w, i.destination, room[0].value, known[0]);
  put(w, other, room[1].value, known[1]);
}

// The halves that op_sel names, side by side.
HANDLER(v_pack_b32_f16) {
  Lanes room[2], result;
  w.mask = w.exec;
  const Read a = source<kHalf>(w, i, 0, room[0].value), b = source<kHalf>(w, i, 1, room[1].value);
  for (u32 lane = 0; lane < kLanes; lane++) result.value[lane] = (a.value[lane] & 0xffff) | b.value[lane] << 16;
  put_result(w, i, result.value, Known(a.defined, b.defined));
}

// Sums with a carry for each lane; with a clamp such a sum is `most`.
template <class Operation>
static void with_carry(Wave& w, const Record& i, bool takes_one, u32 most, Operation operation) {
  Lanes room[2], result;
  w.mask = w.exec;
  const Read a = source<kNone>(w, i, 0, room[0].value), b = source<kNone>(w, i, 1, room[1].value);
  const u64 in = takes_one ? source_mask(w, i, 2) : 0;
  u64 out = 0;
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u64 sum = operation(static_cast<u64>(a.value[lane]), static_cast<u64>(b.value[lane]), in >> lane & 1);
    const bool leaves = sum >> 32 & 1;
    result.value[lane] = i.clamp && leaves ? most : static_cast<u32>(sum);
    out |= static_cast<u64>(leaves) << lane;
  }
  put_result(w, i, result.value, a.defined & b.defined);
  set_lane_mask(w, i.scalar_destination, out & w.exec);
}

HANDLER(v_add_co_u32) { with_carry(w, i, false, ~0u, [](u64 a, u64 b, u64) { return a + b; }); }
HANDLER(v_addc_co_u32) { with_carry(w, i, true, ~0u, [](u64 a, u64 b, u64 c) { return a + b + c; }); }
HANDLER(v_sub_co_u32) { with_carry(w, i, false, 0, [](u64 a, u64 b, u64) { return a - b; }); }
HANDLER(v_subrev_co_u32) { with_carry(w, i, false, 0, [](u64 a, u64 b, u64) { return b - a; }); }
HANDLER(v_subb_co_u32) { with_carry(w, i, true, 0, [](u64 a, u64 b, u64 c) { return a - b - c; }); }
HANDLER(v_subbrev_co_u32) { with_carry(w, i, true, 0, [](u64 a, u64 b, u64 c) { return b - a - c; }); }

// 64 bits
using wide_integer = __int128;

// A sum of 65 bits, whose last bit is a mask of the lanes. They come in order.
template <class Operation>
static void product_and_sum(Wave& w, const Record& i, Operation operation) {
  u64 out = 0;
  u32 lane = 0;
  each64<3>(w, i, 4, [&](u64 a, u64 b, u64 c) {
    const wide_integer sum = operation(a, b, c);
    out |= static_cast<u64>(sum >> 64 & 1) << lane++;
    return static_cast<u64>(sum);
  }, true);
  set_lane_mask(w, i.scalar_destination, out & w.exec);
}

HANDLER(v_mad_u64_u32) {
  product_and_sum(w, i, [](u64 a, u64 b, u64 c) { return static_cast<wide_integer>(a * b) + c; });
}
HANDLER(v_mad_i64_i32) {
  product_and_sum(w, i, [](u64 a, u64 b, u64 c) {
    return static_cast<wide_integer>(static_cast<i64>(s32(static_cast<u32>(a))) * s32(static_cast<u32>(b))) + s64(c);
  });
}
HANDLER(v_lshlrev_b64) { each64<2>(w, i, 2, [](u64 a, u64 b, u64) { return b << (a & 63); }, true); }
HANDLER(v_lshrrev_b64) { each64<2>(w, i, 2, [](u64 a, u64 b, u64) { return b >> (a & 63); }); }
HANDLER(v_ashrrev_i64) {
  each64<2>(w, i, 2, [](u64 a, u64 b, u64) { return static_cast<u64>(static_cast<i64>(b) >> (a & 63)); });
}
HANDLER(v_lshl_add_u64) { each64<3>(w, i, 5, [](u64 a, u64 b, u64 c) { return (a << (b & 7)) + c; }, true); }
HANDLER(v_add_u64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return a + b; }, true); }
HANDLER(v_sub_u64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return a - b; }, true); }
HANDLER(v_mul_u64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return a * b; }, true); }
HANDLER(v_min_u64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return std::min(a, b); }); }
HANDLER(v_max_u64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return std::max(a, b); }); }
HANDLER(v_min_i64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return s64(a) < s64(b) ? a : b; }); }
HANDLER(v_max_i64) { each64<2>(w, i, 3, [](u64 a, u64 b, u64) { return s64(a) > s64(b) ? a : b; }); }
HANDLER(v_mad_nc_u64_u32) { each64<3>(w, i, 4, [](u64 a, u64 b, u64 c) { return a * b + c; }, true); }
HANDLER(v_mad_nc_i64_i32) {
  each64<3>(w, i, 4, [](u64 a, u64 b, u64 c) {
    return static_cast<u64>(static_cast<i64>(s32(static_cast<u32>(a))) * s32(static_cast<u32>(b))) + c;
  }, true);
}
HANDLER(v_mov_b64) { each64<1>(w, i, 1, [](u64 a, u64, u64) { return a; }, true); }

}  // namespace
