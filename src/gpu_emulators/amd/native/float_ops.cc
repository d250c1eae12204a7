// Arithmetic in fp32 and fp16 on lanes, and the division's steps.
#include "vector_loops.h"

namespace {

// A product and a sum, each rounded; subnormal numbers are taken and given as zero.
static float mad(float a, float b, float c) { return flushed(flushed(flushed(a) * flushed(b)) + flushed(c)); }

VECTOR(v_add_f32, kFloat, 2, bits(f32(a) + f32(b)))
VECTOR(v_sub_f32, kFloat, 2, bits(f32(a) - f32(b)))
VECTOR(v_subrev_f32, kFloat, 2, bits(f32(b) - f32(a)))
VECTOR(v_mul_f32, kFloat, 2, bits(f32(a) * f32(b)))
VECTOR(v_fma_f32, kFloat, 3, bits(fmaf(f32(a), f32(b), f32(c))))
VECTOR(v_mad_f32, kFloat, 3, bits(mad(f32(a), f32(b), f32(c))))
VECTOR(v_max_f32, kFloat, 2, bits(maximum(f32(a), f32(b))))
VECTOR(v_min_f32, kFloat, 2, bits(minimum(f32(a), f32(b))))
VECTOR(v_max3_f32, kFloat, 3, bits(maximum(maximum(f32(a), f32(b)), f32(c))))
VECTOR(v_min3_f32, kFloat, 3, bits(minimum(minimum(f32(a), f32(b)), f32(c))))
VECTOR(v_med3_f32, kFloat, 3, bits(median(f32(a), f32(b), f32(c))))
VECTOR(v_ldexp_f32, kFloat, 2, bits(ldexpf(f32(a), static_cast<i32>(b))))
VECTOR(v_floor_f32, kFloat, 1, bits(floorf(f32(a))))
VECTOR(v_ceil_f32, kFloat, 1, bits(ceilf(f32(a))))
VECTOR(v_trunc_f32, kFloat, 1, bits(truncf(f32(a))))
VECTOR(v_rndne_f32, kFloat, 1, bits(rintf(f32(a))))
// A fraction that rounds to one is the largest number below it.
VECTOR(v_fract_f32, kFloat, 1, bits(f32(a) - floorf(f32(a)) >= 1 ? 0x1.fffffep-1f : f32(a) - floorf(f32(a))))

// Taken as correctly rounded; the hardware's are within one unit in the last place.
VECTOR(v_exp_f32, kFloat, 1, bits(flushed(exp2f(flushed(f32(a))))))
VECTOR(v_log_f32, kFloat, 1, bits(log2f(flushed(f32(a)))))
VECTOR(v_rcp_f32, kFloat, 1, bits(flushed(1.0f / flushed(f32(a)))))
VECTOR(v_rcp_iflag_f32, kFloat, 1, bits(flushed(1.0f / flushed(f32(a)))))
VECTOR(v_rsq_f32, kFloat, 1, bits(static_cast<float>(1.0 / std::sqrt(static_cast<double>(flushed(f32(a)))))))
VECTOR(v_sqrt_f32, kFloat, 1, bits(sqrtf(flushed(f32(a)))))

// The number is one of turns. Only its part behind the point counts, which is exact.
static double turned(float a) { return 2 * M_PI * (static_cast<double>(a) - std::rint(a)); }

VECTOR(v_sin_f32, kFloat, 1, bits(static_cast<float>(std::sin(turned(f32(a))))))
VECTOR(v_cos_f32, kFloat, 1, bits(static_cast<float>(std::cos(turned(f32(a))))))

VECTOR(v_maxmin_f32, kFloat, 3, bits(minimum(maximum(f32(a), f32(b)), f32(c))))
VECTOR(v_minmax_f32, kFloat, 3, bits(maximum(minimum(f32(a), f32(b)), f32(c))))
VECTOR(v_maximum_f32, kFloat, 2, bits(maximum_or_nan(f32(a), f32(b))))
VECTOR(v_minimum_f32, kFloat, 2, bits(minimum_or_nan(f32(a), f32(b))))
VECTOR(v_maximum3_f32, kFloat, 3, bits(maximum_or_nan(maximum_or_nan(f32(a), f32(b)), f32(c))))
VECTOR(v_minimum3_f32, kFloat, 3, bits(minimum_or_nan(minimum_or_nan(f32(a), f32(b)), f32(c))))
VECTOR(v_maximumminimum_f32, kFloat, 3, bits(minimum_or_nan(maximum_or_nan(f32(a), f32(b)), f32(c))))
VECTOR(v_minimummaximum_f32, kFloat, 3, bits(maximum_or_nan(minimum_or_nan(f32(a), f32(b)), f32(c))))

VECTOR(v_add_f16, kHalf, 2, bits16(f16(a) + f16(b)))
VECTOR(v_sub_f16, kHalf, 2, bits16(f16(a) - f16(b)))
VECTOR(v_subrev_f16, kHalf, 2, bits16(f16(b) - f16(a)))
VECTOR(v_mul_f16, kHalf, 2, bits16(f16(a) * f16(b)))
VECTOR(v_fma_f16, kHalf, 3, bits16(static_cast<double>(f16(a)) * f16(b) + f16(c)))
VECTOR(v_max_f16, kHalf, 2, bits16(maximum(f16(a), f16(b))))
VECTOR(v_min_f16, kHalf, 2, bits16(minimum(f16(a), f16(b))))

static u32 mantissa(float value) {
  int exponent;
  return bits(std::isfinite(value) ? frexpf(value, &exponent) : value);
}

static u32 binary_exponent(float value) {
  int exponent = 0;
  if (std::isfinite(value)) frexpf(value, &exponent);
  return static_cast<u32>(exponent);
}

VECTOR(v_frexp_mant_f32, kFloat, 1, mantissa(f32(a)))

HANDLER(v_frexp_exp_i32_f32) {
  Lanes room, result;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room.value);
  for (u32 lane = 0; lane < kLanes; lane++) result.value[lane] = binary_exponent(f32(a.value[lane]));
  put_result(w, i, result.value, a.defined);
}

// Products with the destination, or with a constant of the instruction.
template <class Sum>
static void accumulate(Wave& w, const Record& i, Sum sum_of) {
  await_vector(w, i, i.destination);
  const u32* sum = w.vector[i.destination];
  const u64 before = w.defined[i.destination];
  Lanes room[2], result;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room[0].value), b = source<kFloat>(w, i, 1, room[1].value);
  for (u32 lane = 0; lane < kLanes; lane++) {
    result.value[lane] = bits(modified(sum_of(f32(a.value[lane]), f32(b.value[lane]), f32(sum[lane])), i));
  }
  put_result(w, i, result.value, a.defined & b.defined & before);
}

HANDLER(v_fmac_f32) { accumulate(w, i, fmaf); }
HANDLER(v_mac_f32) { accumulate(w, i, mad); }
VECTOR(v_fmamk_f32, kFloat, 2, bits(fmaf(f32(a), bits_as<float>(i.immediate), f32(b))))
VECTOR(v_fmaak_f32, kFloat, 2, bits(fmaf(f32(a), f32(b), bits_as<float>(i.immediate))))
VECTOR(v_madmk_f32, kFloat, 2, bits(mad(f32(a), bits_as<float>(i.immediate), f32(b))))
VECTOR(v_madak_f32, kFloat, 2, bits(mad(f32(a), f32(b), bits_as<float>(i.immediate))))

// Division: scale the operands, make the quotient's last step, and put the special cases in. AMD's pseudocode cannot be
// followed to the letter here: it scales a divisor near the largest number up, and takes the scaling back by another
// power. What stands here gives the quotient that IEEE 754 asks for, which AMD's compilers promise.
static bool is_subnormal(double value) { return value != 0 && std::fabs(value) < 0x1p-126; }

static float scaled(float a, float divisor, float dividend, bool* is_scaled) {
  const double quotient = static_cast<double>(dividend) / divisor, inverse = 1.0 / divisor;
  if (dividend == 0 || divisor == 0) return *is_scaled = true, NAN;
  if (static_cast<int>(exponent(dividend)) - static_cast<int>(exponent(divisor)) >= 96) {
    *is_scaled = true;
    return a == divisor ? ldexpf(a, 64) : a;
  }
  if (is_subnormal(divisor)) return ldexpf(a, 64);
  if (is_subnormal(inverse) && is_subnormal(quotient)) {
    *is_scaled = true;
    return a == divisor ? ldexpf(a, -64) : a;
  }
  if (is_subnormal(inverse)) return ldexpf(a, -64);
  if (is_subnormal(quotient) || static_cast<int>(exponent(dividend)) - static_cast<int>(exponent(divisor)) <= -126) {
    *is_scaled = true;
    return a == dividend ? ldexpf(a, 64) : a;
  }
  return exponent(dividend) <= 23 ? ldexpf(a, 64) : a;
}

HANDLER(v_div_scale_f32) {
  Lanes room[3], result;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room[0].value), b = source<kFloat>(w, i, 1, room[1].value);
  const Read c = source<kFloat>(w, i, 2, room[2].value);
  u64 flags = 0;
  for (u32 lane = 0; lane < kLanes; lane++) {
    bool is_scaled = false;
    result.value[lane] = bits(scaled(f32(a.value[lane]), f32(b.value[lane]), f32(c.value[lane]), &is_scaled));
    flags |= static_cast<u64>(is_scaled) << lane;
  }
  put_result(w, i, result.value, a.defined & b.defined & c.defined);
  set_lane_mask(w, i.scalar_destination, flags & w.exec);
}

// A product and a sum times a power of two, rounded once: also where the result is subnormal.
static float scaled_sum(float a, float b, float c, int power) {
  const double product = static_cast<double>(a) * b;  // exact
  double sum = product + c;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  const double added = sum - product, error = (product - (sum - added)) + (c - added);
  if (error != 0 && (bits64(sum) & 1) == 0) sum = std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
  return static_cast<float>(std::ldexp(sum, power));
}

HANDLER(v_div_fmas_f32) {
  Lanes room[3], result;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room[0].value), b = source<kFloat>(w, i, 1, room[1].value);
  const Read c = source<kFloat>(w, i, 2, room[2].value);
  const u64 flags = vcc(w);
  for (u32 lane = 0; lane < kLanes; lane++) {
    const float x = f32(a.value[lane]), y = f32(b.value[lane]), z = f32(c.value[lane]);
    const bool is_scaled = flags >> lane & 1;
    const float value = is_scaled ? scaled_sum(x, y, z, exponent(z) > 127 ? 64 : -64) : fmaf(x, y, z);
    result.value[lane] = bits(modified(value, i));
  }
  put_result(w, i, result.value, a.defined & b.defined & c.defined);
}

static float fixed_up(float quotient, float divisor, float dividend) {
  const bool negative = std::signbit(divisor) != std::signbit(dividend);
  const float zero = negative ? -0.0f : 0.0f, infinity = negative ? -INFINITY : INFINITY;
  if (dividend != dividend) return dividend;
  if (divisor != divisor) return divisor;
  if ((divisor == 0 && dividend == 0) || (std::isinf(divisor) && std::isinf(dividend))) return -NAN;
  if (divisor == 0 || std::isinf(dividend)) return infinity;
  if (std::isinf(divisor) || dividend == 0) return zero;
  if (quotient != quotient) return infinity;
  const int difference = std::ilogb(dividend) - std::ilogb(divisor);
  if (difference < -150) return zero;
  if (difference > 128) return infinity;
  return negative ? -std::fabs(quotient) : std::fabs(quotient);
}

VECTOR(v_div_fixup_f32, kFloat, 3, bits(fixed_up(f32(a), f32(b), f32(c))))

// fp64
}  // namespace
