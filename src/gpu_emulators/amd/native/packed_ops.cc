// Packed arithmetic: two numbers of fp32 in two registers, two numbers of 16 bits in one, and fp16 mixed with fp32.
#include "vector_loops.h"

namespace {

// op_sel chooses the register for the low result and op_sel_hi for the high one.
template <int Count, class Operation>
static void two_floats(Wave& w, const Record& i, Operation operation) {
  Lanes room[2 * Count], result[2];
  Read read[Count][2];
  w.mask = w.exec;
  for (int place = 0; place < Count; place++) {
    const bool takes[2] = {!(i.half >> place & i.half_high >> place & 1), ((i.half | i.half_high) >> place & 1) != 0};
    for (u32 part = 0; part < 2; part++) {
      if (takes[part]) read[place][part] = source<kNone>(w, i, place, room[2 * place + part].value, part);
    }
  }
  u64 defined[2] = {~0ull, ~0ull};
  for (int high = 0; high < 2; high++) {
    const u32 choice = high ? i.half_high : i.half, negate = high ? i.negate_high : i.negate;
    for (u32 lane = 0; lane < kLanes; lane++) {
      float value[3] = {};
      for (int place = 0; place < Count; place++) {
        value[place] = f32(read[place][choice >> place & 1].value[lane] ^ (negate >> place & 1) << 31);
      }
      result[high].value[lane] = bits(operation(value[0], value[1], value[2]));
    }
    for (int place = 0; place < Count; place++) defined[high] &= read[place][choice >> place & 1].defined;
  }
  for (int high = 0; high < 2; high++) {
    await_vector(w, i, i.destination + high);
    put(w, i.destination + high, result[high].value, defined[high]);
  }
}

HANDLER(v_pk_add_f32) { two_floats<2>(w, i, [](float a, float b, float) { return a + b; }); }
HANDLER(v_pk_mul_f32) { two_floats<2>(w, i, [](float a, float b, float) { return a * b; }); }
HANDLER(v_pk_fma_f32) { two_floats<3>(w, i, [](float a, float b, float c) { return fmaf(a, b, c); }); }

// The low result is from the first source, the high one from the second.
HANDLER(v_pk_mov_b32) {
  Lanes room[2], result[2];
  w.mask = w.exec;
  const Read low = source<kNone>(w, i, 0, room[0].value, i.half & 1);
  const Read high = source<kNone>(w, i, 1, room[1].value, i.half >> 1 & 1);
  memcpy(result[0].value, low.value, sizeof result[0].value);
  memcpy(result[1].value, high.value, sizeof result[1].value);
  put(w, i.destination, result[0].value, low.defined);
  put(w, i.destination + 1, result[1].value, high.defined);
}

template <int Count, class Operation>
static void two_halves(Wave& w, const Record& i, Operation operation) {
  Lanes room[Count], result;
  Read read[Count];
  Known defined = ~0ull;
  w.mask = w.exec;
  for (int place = 0; place < Count; place++) {
    read[place] = source<kNone>(w, i, place, room[place].value);
    defined.half[0] &= read[place].defined.half[i.half >> place & 1];
    defined.half[1] &= read[place].defined.half[i.half_high >> place & 1];
  }
  for (u32 lane = 0; lane < kLanes; lane++) {
    u32 both = 0;
    for (int high = 0; high < 2; high++) {
      const u32 choice = high ? i.half_high : i.half, negate = high ? i.negate_high : i.negate;
      u32 value[3] = {};
      for (int place = 0; place < Count; place++) {
        const u32 part = read[place].value[lane] >> 16 * (choice >> place & 1) & 0xffff;
        value[place] = part ^ (negate >> place & 1) << 15;
      }
      both |= (operation(value[0], value[1], value[2]) & 0xffff) << 16 * high;
    }
    result.value[lane] = both;
  }
  put_result(w, i, result.value, defined);
}

HANDLER(v_pk_add_f16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return bits16(f16(a) + f16(b)); }); }
HANDLER(v_pk_mul_f16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return bits16(f16(a) * f16(b)); }); }
HANDLER(v_pk_max_f16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return bits16(maximum(f16(a), f16(b))); }); }
HANDLER(v_pk_min_f16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return bits16(minimum(f16(a), f16(b))); }); }
HANDLER(v_pk_fma_f16) {
  two_halves<3>(w, i, [](u32 a, u32 b, u32 c) { return bits16(static_cast<double>(f16(a)) * f16(b) + f16(c)); });
}
HANDLER(v_pk_mul_lo_u16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return a * b; }); }
HANDLER(v_pk_lshlrev_b16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return b << (a & 15); }); }
HANDLER(v_pk_lshrrev_b16) { two_halves<2>(w, i, [](u32 a, u32 b, u32) { return b >> (a & 15); }); }

#define PAIRS(name, count, expression)                                                                            \
  HANDLER(name) {                                                                                                 \
    two_halves<count>(w, i, [&]([[maybe_unused]] u32 a, [[maybe_unused]] u32 b, [[maybe_unused]] u32 c) -> u32 {   \
      return expression;                                                                                          \
    });                                                                                                           \
  }

PAIRS(v_pk_add_u16, 2, unsigned16(i, static_cast<i32>(a + b)))
PAIRS(v_pk_sub_u16, 2, unsigned16(i, static_cast<i32>(a) - static_cast<i32>(b)))
PAIRS(v_pk_add_i16, 2, signed16(i, s16(a) + s16(b)))
PAIRS(v_pk_sub_i16, 2, signed16(i, s16(a) - s16(b)))
PAIRS(v_pk_max_u16, 2, std::max(a, b))
PAIRS(v_pk_min_u16, 2, std::min(a, b))
PAIRS(v_pk_max_i16, 2, static_cast<u32>(std::max(s16(a), s16(b))))
PAIRS(v_pk_min_i16, 2, static_cast<u32>(std::min(s16(a), s16(b))))
PAIRS(v_pk_mad_u16, 3, a * b + c)
PAIRS(v_pk_mad_i16, 3, a * b + c)
PAIRS(v_pk_ashrrev_i16, 2, static_cast<u32>(s16(b) >> (a & 15)))
PAIRS(v_pk_maximum_f16, 2, bits16(maximum_or_nan(f16(a), f16(b))))
PAIRS(v_pk_minimum_f16, 2, bits16(minimum_or_nan(f16(a), f16(b))))
PAIRS(v_pk_max3_f16, 3, bits16(maximum(maximum(f16(a), f16(b)), f16(c))))
PAIRS(v_pk_min3_f16, 3, bits16(minimum(minimum(f16(a), f16(b)), f16(c))))
PAIRS(v_pk_maximum3_f16, 3, bits16(maximum_or_nan(maximum_or_nan(f16(a), f16(b)), f16(c))))
PAIRS(v_pk_minimum3_f16, 3, bits16(minimum_or_nan(minimum_or_nan(f16(a), f16(b)), f16(c))))

// Two products of halves and a sum, each rounded to the dtype of the result.
template <class Sum>
static void products_of_pairs(Wave& w, const Record& i, Sum sum) {
  Lanes room[3], result;
  w.mask = w.exec;
  const Read a = source<kNone>(w, i, 0, room[0].value), b = source<kNone>(w, i, 1, room[1].value);
  const Read c = source<kNone>(w, i, 2, room[2].value);
  for (u32 lane = 0; lane < kLanes; lane++) {
    u32 total = c.value[lane] >> (i.half >> 2 & 1 ? 16 : 0) & 0xffff;
    for (int shift = 0; shift < 32; shift += 16) {
      total = sum(a.value[lane] >> shift & 0xffff, b.value[lane] >> shift & 0xffff, total);
    }
    result.value[lane] = total;
  }
  put_half(w, i, result.value, a.defined & b.defined & c.defined.half[i.half >> 2 & 1]);
}

HANDLER(v_dot2_bf16_bf16) {
  products_of_pairs(w, i, [](u32 a, u32 b, u32 c) { return bits_bf16(bf16(bits_bf16(bf16(a) * bf16(b))) + bf16(c)); });
}
HANDLER(v_dot2_f16_f16) {
  products_of_pairs(w, i, [](u32 a, u32 b, u32 c) { return bits16(f16(bits16(f16(a) * f16(b))) + f16(c)); });
}

// A product and a sum in fp32 of operands that are fp32, or the half of a register in fp16 or bf16.
template <class Number, class Finish>
static void mixed(Wave& w, const Record& i, u32 written, Number number, Finish finish) {
  Lanes room[3], result;
  Read read[3];
  u64 defined = ~0ull;
  w.mask = w.exec;
  for (int place = 0; place < 3; place++) {
    read[place] = source<kNone>(w, i, place, room[place].value);
    const Known& known = read[place].defined;
    defined &= i.half_high >> place & 1 ? known.half[i.half >> place & 1] : static_cast<u64>(known);
  }
  Known known = w.defined[i.destination];
  for (u32 half = 0; half < 2; half++) {
    if (written >> half & 1) known.half[half] = defined;
  }
  for (u32 lane = 0; lane < kLanes; lane++) {
    float value[3];
    for (int place = 0; place < 3; place++) {
      const u32 all = read[place].value[lane];
      value[place] = i.half_high >> place & 1 ? number(i.half >> place & 1 ? all >> 16 : all & 0xffff) : f32(all);
      if (i.negate_high >> place & 1) value[place] = std::fabs(value[place]);
      if (i.negate >> place & 1) value[place] = -value[place];
    }
    const float sum = modified(fmaf(value[0], value[1], value[2]), i);
    result.value[lane] = finish(sum, w.vector[i.destination][lane]);
  }
  put_result(w, i, result.value, known, w.family == kCdna ? 3 : written);
}

static float half_number(u32 a) { return f16(a); }
static float brain_number(u32 a) { return bf16(a); }

HANDLER(v_fma_mix_f32) { mixed(w, i, 3, half_number, [](float sum, u32) { return bits(sum); }); }
HANDLER(v_fma_mixlo_f16) { mixed(w, i, 1, half_number, [](float sum, u32 old) { return (old & 0xffff0000) | bits16(sum); }); }
HANDLER(v_fma_mixhi_f16) { mixed(w, i, 2, half_number, [](float sum, u32 old) { return (old & 0xffff) | bits16(sum) << 16; }); }
HANDLER(v_fma_mix_f32_bf16) { mixed(w, i, 3, brain_number, [](float sum, u32) { return bits(sum); }); }
HANDLER(v_fma_mixlo_bf16) { mixed(w, i, 1, brain_number, [](float sum, u32 old) { return (old & 0xffff0000) | bits_bf16(sum); }); }
HANDLER(v_fma_mixhi_bf16) { mixed(w, i, 2, brain_number, [](float sum, u32 old) { return (old & 0xffff) | bits_bf16(sum) << 16; }); }

}  // namespace
