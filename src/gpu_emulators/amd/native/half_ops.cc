// Arithmetic on 16 bits: fp16 beyond sums and products, and integers of three operands.
#include "vector_loops.h"

namespace {

static double wide(u32 a) { return f16(a); }

VECTOR(v_max3_f16, kHalf, 3, bits16(maximum(maximum(f16(a), f16(b)), f16(c))))
VECTOR(v_min3_f16, kHalf, 3, bits16(minimum(minimum(f16(a), f16(b)), f16(c))))
VECTOR(v_med3_f16, kHalf, 3, bits16(median(f16(a), f16(b), f16(c))))
VECTOR(v_maxmin_f16, kHalf, 3, bits16(minimum(maximum(f16(a), f16(b)), f16(c))))
VECTOR(v_minmax_f16, kHalf, 3, bits16(maximum(minimum(f16(a), f16(b)), f16(c))))
VECTOR(v_maximum_f16, kHalf, 2, bits16(maximum_or_nan(f16(a), f16(b))))
VECTOR(v_minimum_f16, kHalf, 2, bits16(minimum_or_nan(f16(a), f16(b))))
VECTOR(v_maximum3_f16, kHalf, 3, bits16(maximum_or_nan(maximum_or_nan(f16(a), f16(b)), f16(c))))
VECTOR(v_minimum3_f16, kHalf, 3, bits16(minimum_or_nan(minimum_or_nan(f16(a), f16(b)), f16(c))))
VECTOR(v_floor_f16, kHalf, 1, bits16(floorf(f16(a))))
VECTOR(v_ceil_f16, kHalf, 1, bits16(ceilf(f16(a))))
VECTOR(v_trunc_f16, kHalf, 1, bits16(truncf(f16(a))))
VECTOR(v_rndne_f16, kHalf, 1, bits16(rintf(f16(a))))
VECTOR(v_fract_f16, kHalf, 1, std::min(bits16(f16(a) - floorf(f16(a))), f16(a) != f16(a) ? 0x7e00u : 0x3bffu))
VECTOR(v_ldexp_f16, kHalf, 2, bits16(std::ldexp(wide(a), s16(b))))
VECTOR(v_rcp_f16, kHalf, 1, bits16(1.0 / wide(a)))
VECTOR(v_sqrt_f16, kHalf, 1, bits16(std::sqrt(wide(a))))
VECTOR(v_rsq_f16, kHalf, 1, bits16(1.0 / std::sqrt(wide(a))))
VECTOR(v_exp_f16, kHalf, 1, bits16(std::exp2(wide(a))))
VECTOR(v_log_f16, kHalf, 1, bits16(std::log2(wide(a))))
VECTOR(v_sin_f16, kHalf, 1, bits16(std::sin(2 * M_PI * (wide(a) - std::rint(wide(a))))))
VECTOR(v_cos_f16, kHalf, 1, bits16(std::cos(2 * M_PI * (wide(a) - std::rint(wide(a))))))

static u32 mantissa(u32 a) {
  int exponent;
  return std::isfinite(f16(a)) ? bits16(std::frexp(wide(a), &exponent)) : bits16(f16(a));
}

static u32 binary_exponent(u32 a) {
  int exponent = 0;
  if (std::isfinite(f16(a))) std::frexp(wide(a), &exponent);
  return static_cast<u16>(exponent);
}

VECTOR(v_frexp_mant_f16, kHalf, 1, mantissa(a))
VECTOR(v_frexp_exp_i16_f16, kHalf, 1, binary_exponent(a))

static u32 fixed_up(u32 quotient, u32 divisor, u32 dividend) {
  const float x = f16(dividend), y = f16(divisor);
  const u32 sign = (divisor ^ dividend) & 0x8000;
  if (x != x) return (dividend & 0xffff) | 0x200;
  if (y != y) return (divisor & 0xffff) | 0x200;
  if ((x == 0 && y == 0) || (std::isinf(x) && std::isinf(y))) return 0xfe00;
  if (y == 0 || std::isinf(x)) return sign | 0x7c00;
  if (std::isinf(y) || x == 0) return sign;
  return sign | (quotient & 0x7fff);
}

VECTOR(v_div_fixup_f16, kHalf, 3, fixed_up(a, b, c))

// Without one rounding between the product and the sum (fma), and with it (mad).
static u32 fused(u32 a, u32 b, u32 c) { return bits16(wide(a) * f16(b) + f16(c)); }
static u32 rounded_twice(u32 a, u32 b, u32 c) { return bits16(f16(bits16(f16(a) * f16(b))) + f16(c)); }

VECTOR(v_fmamk_f16, kHalf, 2, fused(a, static_cast<u32>(i.immediate), b))
VECTOR(v_fmaak_f16, kHalf, 2, fused(a, b, static_cast<u32>(i.immediate)))
VECTOR(v_mad_f16, kHalf, 3, rounded_twice(a, b, c))

template <class Sum>
static void accumulate_half(Wave& w, const Record& i, Sum sum) {
  Record with_sum = i;
  with_sum.source[2] = {kVector, i.destination, 0};
  with_sum.half |= (i.half >> 3 & 1) << 2;
  each<kHalf, 3>(w, with_sum, sum);
}

HANDLER(v_fmac_f16) { accumulate_half(w, i, fused); }
HANDLER(v_mac_f16) { accumulate_half(w, i, rounded_twice); }

VECTOR(v_cvt_f16_u16, kHalf, 1, bits16(static_cast<float>(a & 0xffff)))
VECTOR(v_cvt_f16_i16, kHalf, 1, bits16(static_cast<float>(s16(a))))
VECTOR(v_cvt_u16_f16, kHalf, 1, std::min(to_u32(f16(a)), 65535u))
VECTOR(v_cvt_i16_f16, kHalf, 1, static_cast<u16>(std::clamp(to_i32(f16(a)), -32768, 32767)))

static i32 u(u32 a) { return static_cast<i32>(a & 0xffff); }

VECTOR(v_add_u16, kHalf, 2, unsigned16(i, u(a) + u(b)))
VECTOR(v_sub_u16, kHalf, 2, unsigned16(i, u(a) - u(b)))
VECTOR(v_subrev_u16, kHalf, 2, unsigned16(i, u(b) - u(a)))
VECTOR(v_add_i16, kHalf, 2, signed16(i, s16(a) + s16(b)))
VECTOR(v_sub_i16, kHalf, 2, signed16(i, s16(a) - s16(b)))
VECTOR(v_mad_u16, kHalf, 3,
       static_cast<u16>(i.clamp ? std::min((a & 0xffff) * (b & 0xffff) + (c & 0xffff), 65535u) : a * b + c))
VECTOR(v_mad_i16, kHalf, 3, signed16(i, s16(a) * s16(b) + s16(c)))
VECTOR(v_max3_u16, kHalf, 3, static_cast<u32>(std::max({u(a), u(b), u(c)})))
VECTOR(v_min3_u16, kHalf, 3, static_cast<u32>(std::min({u(a), u(b), u(c)})))
VECTOR(v_max3_i16, kHalf, 3, static_cast<u16>(std::max({s16(a), s16(b), s16(c)})))
VECTOR(v_min3_i16, kHalf, 3, static_cast<u16>(std::min({s16(a), s16(b), s16(c)})))
VECTOR(v_med3_u16, kHalf, 3, static_cast<u32>(std::max(std::min(u(a), u(b)), std::min(std::max(u(a), u(b)), u(c)))))
VECTOR(v_med3_i16, kHalf, 3,
       static_cast<u16>(std::max(std::min(s16(a), s16(b)), std::min(std::max(s16(a), s16(b)), s16(c)))))
VECTOR(v_not_b16, kHalf, 1, ~a & 0xffff)

}  // namespace
