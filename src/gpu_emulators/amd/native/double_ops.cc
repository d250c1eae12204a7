// Arithmetic, rounding, comparisons and the steps of a division in fp64.
#include "vector_loops.h"

namespace {

#define DOUBLES(name, count, expression)                                                                          \
  HANDLER(name) {                                                                                                 \
    each_double<count>(w, i, [&]([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] double c) { \
      return expression;                                                                                          \
    });                                                                                                           \
  }

static int exponent_of(double a) { return static_cast<int>(bits64(a) >> 52 & 2047); }

static double rest(double a) { return a - std::floor(a) >= 1 ? 0x1.fffffffffffffp-1 : a - std::floor(a); }

static double mantissa(double a) {
  int exponent;
  return std::isfinite(a) ? std::frexp(a, &exponent) : a;
}

DOUBLES(v_add_f64, 2, a + b)
DOUBLES(v_mul_f64, 2, a * b)
DOUBLES(v_fma_f64, 3, std::fma(a, b, c))
DOUBLES(v_max_f64, 2, maximum(a, b))
DOUBLES(v_min_f64, 2, minimum(a, b))
DOUBLES(v_floor_f64, 1, std::floor(a))
DOUBLES(v_ceil_f64, 1, std::ceil(a))
DOUBLES(v_trunc_f64, 1, std::trunc(a))
DOUBLES(v_rndne_f64, 1, std::rint(a))
DOUBLES(v_fract_f64, 1, rest(a))
DOUBLES(v_frexp_mant_f64, 1, mantissa(a))
DOUBLES(v_rcp_f64, 1, 1.0 / a)
DOUBLES(v_rsq_f64, 1, 1.0 / std::sqrt(a))
DOUBLES(v_sqrt_f64, 1, std::sqrt(a))

HANDLER(v_ldexp_f64) {
  each64<2>(w, i, 1, [&](u64 a, u64 b, u64) {
    return bits64(std::ldexp(with_signs(i, 0, a), static_cast<i32>(static_cast<u32>(b))));
  });
}

HANDLER(v_fmac_f64) {
  w.mask = w.exec;
  Record sum = i;
  sum.source[2] = {kVector, i.destination, 0};
  each_double<3>(w, sum, [](double a, double b, double c) { return std::fma(a, b, c); });
}

// 2 / pi without its first two zeros, and bits of it that an angle of so many bits is multiplied with.
constexpr u64 kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
};

static double part_of_two_over_pi(double angle, u32 number) {
  const int power = exponent_of(angle);
  const u32 shift = (number & 31) * 53 + static_cast<u32>(std::max(power - 1077, 0));
  u64 bits = 0;
  for (u32 k = 0; k < 53; k++) {
    const u32 place = shift + k;
    bits = bits << 1 | (place < 1201 ? kTwoOverPi[place / 64] >> (63 - place % 64) & 1 : 0);
  }
  return std::ldexp(static_cast<double>(bits), -53 - static_cast<int>(shift) + (power >= 1968 ? 128 : 0));
}

HANDLER(v_trig_preop_f64) {
  each64<2>(w, i, 1, [&](u64 a, u64 b, u64) {
    return bits64(part_of_two_over_pi(with_signs(i, 0, a), static_cast<u32>(b)));
  });
}

// A division: its operands are scaled where a step of it would leave the range of numbers, and the end is scaled back.
static bool is_tiny(double a) { return a != 0 && std::fabs(a) < 0x1p-1022; }

static double scaled(double a, double divisor, double dividend, bool* is_scaled) {
  if (dividend == 0 || divisor == 0) return *is_scaled = true, NAN;
  if (exponent_of(dividend) - exponent_of(divisor) >= 768) return *is_scaled = true, a == divisor ? std::ldexp(a, 128) : a;
  if (is_tiny(divisor)) return std::ldexp(a, 128);
  const bool small_inverse = is_tiny(1.0 / divisor), small_quotient = is_tiny(dividend / divisor);
  if (small_inverse && small_quotient) return *is_scaled = true, a == divisor ? std::ldexp(a, -128) : a;
  if (small_inverse) return std::ldexp(a, -128);
  if (small_quotient) return *is_scaled = true, a == dividend ? std::ldexp(a, 128) : a;
  return exponent_of(dividend) <= 53 ? std::ldexp(a, 128) : a;
}

HANDLER(v_div_scale_f64) {
  u64 flags = 0;
  u32 lane = 0;  // they come in order
  each_double<3>(w, i, [&](double a, double b, double c) {
    bool is_scaled = false;
    const double value = scaled(a, b, c, &is_scaled);
    flags |= static_cast<u64>(is_scaled) << lane++;
    return value;
  });
  set_lane_mask(w, i.scalar_destination, flags & w.exec);
}

HANDLER(v_div_fmas_f64) {
  const u64 flags = vcc(w);
  u32 lane = 0;
  each_double<3>(w, i, [&](double a, double b, double c) {
    const double value = std::fma(a, b, c);
    return flags >> lane++ & 1 ? std::ldexp(value, exponent_of(c) > 1023 ? 128 : -128) : value;
  });
}

static double fixed_up(double quotient, double divisor, double dividend) {
  const double sign = std::signbit(divisor) != std::signbit(dividend) ? -1.0 : 1.0;
  if (dividend != dividend) return dividend;
  if (divisor != divisor) return divisor;
  if ((divisor == 0 && dividend == 0) || (std::isinf(divisor) && std::isinf(dividend))) return -NAN;
  if (divisor == 0 || std::isinf(dividend)) return sign * INFINITY;
  if (std::isinf(divisor) || dividend == 0) return sign * 0.0;
  const int difference = std::ilogb(dividend) - std::ilogb(divisor);
  if (difference < -1080) return sign * 0.0;
  if (difference > 1024) return sign * INFINITY;
  return std::copysign(quotient, sign);
}

DOUBLES(v_div_fixup_f64, 3, fixed_up(a, b, c))

}  // namespace
