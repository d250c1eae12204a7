// Scalar arithmetic in fp32, which RDNA 4 has.
#include "scalar_operands.h"

namespace {

static float number(Wave& w, const Record& i, int place) { return f32(source32(w, i, place)); }

#define SCALAR_FLOAT(name, expression)                      \
  HANDLER(name) {                                           \
    const float a = number(w, i, 0), b = number(w, i, 1);   \
    result32(w, i, bits(expression));                       \
  }
#define SCALAR_COMPARISON(name, expression)                 \
  HANDLER(name) {                                           \
    const float a = number(w, i, 0), b = number(w, i, 1);   \
    w.scc = expression;                                     \
  }

SCALAR_FLOAT(s_add_f32, a + b)
SCALAR_FLOAT(s_sub_f32, a - b)
SCALAR_FLOAT(s_mul_f32, a * b)
SCALAR_FLOAT(s_max_f32, maximum(a, b))
SCALAR_FLOAT(s_min_f32, minimum(a, b))
SCALAR_FLOAT(s_maximum_f32, maximum_or_nan(a, b))
SCALAR_FLOAT(s_minimum_f32, minimum_or_nan(a, b))
SCALAR_FLOAT(s_fmac_f32, fmaf(a, b, f32(get_scalar(w, i.scalar_destination))))
SCALAR_FLOAT(s_fmaak_f32, fmaf(a, b, bits_as<float>(i.immediate)))
SCALAR_FLOAT(s_fmamk_f32, fmaf(a, bits_as<float>(i.immediate), b))
SCALAR_COMPARISON(s_cmp_lt_f32, a < b)
SCALAR_COMPARISON(s_cmp_le_f32, a <= b)
SCALAR_COMPARISON(s_cmp_gt_f32, a > b)
SCALAR_COMPARISON(s_cmp_ge_f32, a >= b)
SCALAR_COMPARISON(s_cmp_eq_f32, a == b)
SCALAR_COMPARISON(s_cmp_neq_f32, a != b)
SCALAR_COMPARISON(s_cmp_lg_f32, a < b || a > b)
SCALAR_COMPARISON(s_cmp_nlg_f32, !(a < b || a > b))
SCALAR_COMPARISON(s_cmp_nlt_f32, !(a < b))
SCALAR_COMPARISON(s_cmp_nle_f32, !(a <= b))
SCALAR_COMPARISON(s_cmp_ngt_f32, !(a > b))
SCALAR_COMPARISON(s_cmp_nge_f32, !(a >= b))
SCALAR_COMPARISON(s_cmp_o_f32, a == a && b == b)
SCALAR_COMPARISON(s_cmp_u_f32, a != a || b != b)

HANDLER(s_trunc_f32) { result32(w, i, bits(truncf(number(w, i, 0)))); }
HANDLER(s_floor_f32) { result32(w, i, bits(floorf(number(w, i, 0)))); }
HANDLER(s_ceil_f32) { result32(w, i, bits(ceilf(number(w, i, 0)))); }
HANDLER(s_rndne_f32) { result32(w, i, bits(rintf(number(w, i, 0)))); }
HANDLER(s_cvt_f32_i32) { result32(w, i, bits(static_cast<float>(static_cast<i32>(source32(w, i, 0))))); }
HANDLER(s_cvt_f32_u32) { result32(w, i, bits(static_cast<float>(source32(w, i, 0)))); }
HANDLER(s_cvt_i32_f32) { result32(w, i, static_cast<u32>(to_i32(number(w, i, 0)))); }
HANDLER(s_cvt_u32_f32) { result32(w, i, to_u32(number(w, i, 0))); }

// In fp16: of the low halves, and zero in the high one.
static float half_number(Wave& w, const Record& i, int place) { return f16(source32(w, i, place) & 0xffff); }

#define SCALAR_HALF(name, expression)                                        \
  HANDLER(name) {                                                            \
    const float a = half_number(w, i, 0), b = half_number(w, i, 1);          \
    result32(w, i, bits16(expression));                                      \
  }
#define HALF_COMPARISON(name, expression)                                    \
  HANDLER(name) {                                                            \
    const float a = half_number(w, i, 0), b = half_number(w, i, 1);          \
    w.scc = expression;                                                      \
  }

SCALAR_HALF(s_add_f16, a + b)
SCALAR_HALF(s_sub_f16, a - b)
SCALAR_HALF(s_mul_f16, a * b)
SCALAR_HALF(s_max_f16, maximum(a, b))
SCALAR_HALF(s_min_f16, minimum(a, b))
SCALAR_HALF(s_fmac_f16, static_cast<double>(a) * b + f16(get_scalar(w, i.scalar_destination) & 0xffff))
HALF_COMPARISON(s_cmp_lt_f16, a < b)
HALF_COMPARISON(s_cmp_le_f16, a <= b)
HALF_COMPARISON(s_cmp_gt_f16, a > b)
HALF_COMPARISON(s_cmp_ge_f16, a >= b)
HALF_COMPARISON(s_cmp_eq_f16, a == b)
HALF_COMPARISON(s_cmp_lg_f16, a < b || a > b)
HALF_COMPARISON(s_cmp_neq_f16, a != b)
HALF_COMPARISON(s_cmp_nlg_f16, !(a < b || a > b))
HALF_COMPARISON(s_cmp_nlt_f16, !(a < b))
HALF_COMPARISON(s_cmp_nle_f16, !(a <= b))
HALF_COMPARISON(s_cmp_ngt_f16, !(a > b))
HALF_COMPARISON(s_cmp_nge_f16, !(a >= b))
HALF_COMPARISON(s_cmp_o_f16, a == a && b == b)
HALF_COMPARISON(s_cmp_u_f16, a != a || b != b)

HANDLER(s_trunc_f16) { result32(w, i, bits16(truncf(half_number(w, i, 0)))); }
HANDLER(s_floor_f16) { result32(w, i, bits16(floorf(half_number(w, i, 0)))); }
HANDLER(s_ceil_f16) { result32(w, i, bits16(ceilf(half_number(w, i, 0)))); }
HANDLER(s_rndne_f16) { result32(w, i, bits16(rintf(half_number(w, i, 0)))); }
HANDLER(s_cvt_f32_f16) { result32(w, i, bits(half_number(w, i, 0))); }
HANDLER(s_cvt_hi_f32_f16) { result32(w, i, bits(f16(source32(w, i, 0) >> 16))); }
HANDLER(s_cvt_f16_f32) { result32(w, i, bits16(number(w, i, 0))); }
HANDLER(s_cvt_pk_rtz_f16_f32) {
  result32(w, i, bits16_towards_zero(number(w, i, 0)) | bits16_towards_zero(number(w, i, 1)) << 16);
}

static double root(float value) { return std::sqrt(static_cast<double>(flushed(value))); }

HANDLER(v_s_rsq_f32) { result32(w, i, bits(static_cast<float>(1.0 / root(number(w, i, 0))))); }
HANDLER(v_s_sqrt_f32) { result32(w, i, bits(sqrtf(flushed(number(w, i, 0))))); }
HANDLER(v_s_exp_f32) { result32(w, i, bits(flushed(exp2f(flushed(number(w, i, 0)))))); }
HANDLER(v_s_log_f32) { result32(w, i, bits(log2f(flushed(number(w, i, 0))))); }
HANDLER(v_s_rcp_f32) { result32(w, i, bits(flushed(1.0f / flushed(number(w, i, 0))))); }

}  // namespace
