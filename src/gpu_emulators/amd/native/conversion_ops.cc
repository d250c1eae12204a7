// Conversions between integers and floating point numbers.
#include <algorithm>

#include "small_floats.h"
#include "vector_loops.h"

namespace {

VECTOR(v_cvt_f32_i32, kNone, 1, bits(modified(static_cast<float>(static_cast<i32>(a)), i)))
VECTOR(v_cvt_f32_u32, kNone, 1, bits(modified(static_cast<float>(a), i)))
VECTOR(v_cvt_f32_ubyte0, kNone, 1, bits(modified(static_cast<float>(a & 255), i)))
VECTOR(v_cvt_f32_ubyte1, kNone, 1, bits(modified(static_cast<float>(a >> 8 & 255), i)))
VECTOR(v_cvt_f32_ubyte2, kNone, 1, bits(modified(static_cast<float>(a >> 16 & 255), i)))
VECTOR(v_cvt_f32_ubyte3, kNone, 1, bits(modified(static_cast<float>(a >> 24), i)))

// From a number to one of another kind: the result has no modifiers of fp32.
template <Modifiers M, class Operation>
static void convert(Wave& w, const Record& i, Operation operation) {
  Lanes room, result;
  w.mask = w.exec;
  const Read read[3] = {source<M>(w, i, 0, room.value), {kZeros, ~0ull}, {kZeros, ~0ull}};
  for (u32 lane = 0; lane < kLanes; lane++) result.value[lane] = operation(read[0].value[lane]);
  const auto again = [&](u32 a, u32, u32) { return operation(a); };
  put_result(w, i, result.value, known_of(w, read, 1, result.value, again));
}

HANDLER(v_cvt_i32_f32) { convert<kFloat>(w, i, [](u32 a) { return static_cast<u32>(to_i32(f32(a))); }); }
HANDLER(v_cvt_u32_f32) { convert<kFloat>(w, i, [](u32 a) { return to_u32(f32(a)); }); }
HANDLER(v_cvt_flr_i32_f32) { convert<kFloat>(w, i, [](u32 a) { return static_cast<u32>(to_i32(floorf(f32(a)))); }); }
HANDLER(v_cvt_rpi_i32_f32) {
  convert<kFloat>(w, i, [](u32 a) { return static_cast<u32>(to_i32(floorf(f32(a) + 0.5f))); });
}
HANDLER(v_cvt_i32_i16) { convert<kHalf>(w, i, [](u32 a) { return static_cast<u32>(static_cast<i16>(a)); }); }
HANDLER(v_cvt_u32_u16) { convert<kHalf>(w, i, [](u32 a) { return a & 0xffff; }); }
HANDLER(v_cvt_f32_f16) { convert<kHalf>(w, i, [&](u32 a) { return bits(modified(f16(a), i)); }); }
HANDLER(v_cvt_f32_bf16) { convert<kNone>(w, i, [&](u32 a) { return bits(modified(bf16(a), i)); }); }

HANDLER(v_cvt_f16_f32) {
  Lanes room, result;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room.value);
  for (u32 lane = 0; lane < kLanes; lane++) result.value[lane] = bits16(modified(f32(a.value[lane]), i));
  put_half(w, i, result.value, a.defined);
}

VECTOR(v_cvt_pk_bf16_f32, kFloat, 2, bits_bf16(f32(a)) | bits_bf16(f32(b)) << 16)
VECTOR(v_cvt_pkrtz_f16_f32, kFloat, 2, bits16_towards_zero(f32(a)) | bits16_towards_zero(f32(b)) << 16)

// From and to 8 bits. parameter: the digits behind the point; whether the format is AMD's older one; the other type; how
// many numbers; whether the last operand is a scale (only its power of two counts).
static u32 both(i32 low, i32 high) { return (static_cast<u32>(low) & 0xffff) | static_cast<u32>(high) << 16; }
static i32 to_i16(i32 a) { return std::clamp(a, -32768, 32767); }
static i32 to_u16(u32 a) { return static_cast<i32>(std::min(a, 65535u)); }

VECTOR(v_cvt_pk_f16_f32, kFloat, 2, bits16(f32(a)) | bits16(f32(b)) << 16)
VECTOR(v_cvt_pk_i16_i32, kNone, 2, both(to_i16(s32(a)), to_i16(s32(b))))
VECTOR(v_cvt_pk_u16_u32, kNone, 2, both(to_u16(a), to_u16(b)))
VECTOR(v_cvt_pk_i16_f32, kFloat, 2, both(to_i16(to_i32(f32(a))), to_i16(to_i32(f32(b)))))
VECTOR(v_cvt_pk_u16_f32, kFloat, 2, both(to_u16(to_u32(f32(a))), to_u16(to_u32(f32(b)))))

enum SmallParameter { kDigits, kIsOld, kOther, kNumbers, kIsScaled };
enum Other : u32 { kOtherF32, kOtherF16, kOtherBf16 };

static double scale_of(u32 value) {
  const u32 power = exponent(f32(value));
  return power == 255 ? NAN : std::ldexp(1.0, static_cast<int>(power) - 127);
}

// Two numbers into a half of a register.
HANDLER(to_small) {
  Lanes room[3], result;
  const bool is_packed = i.parameter[kOther] != kOtherF32;
  w.mask = w.exec;
  const Read a = source<kFloat>(w, i, 0, room[0].value), b = is_packed ? a : source<kFloat>(w, i, 1, room[1].value);
  const Read scale = i.parameter[kIsScaled] ? source<kNone>(w, i, is_packed ? 1 : 2, room[2].value) : a;
  const auto made = [&](u32 lane, u32 all, u32 half) {
    const double value = !is_packed ? f32(all) : i.parameter[kOther] == kOtherF16 ? f16(half) : bf16(half);
    const double divisor = i.parameter[kIsScaled] ? scale_of(scale.value[lane]) : 1.0;
    return small_bits(value / divisor, static_cast<int>(i.parameter[kDigits]), i.parameter[kIsOld], stays_finite);
  };
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u32 low = a.value[lane], high = b.value[lane];
    result.value[lane] = made(lane, low, low & 0xffff) | made(lane, high, high >> 16) << 8;
  }
  put_half(w, i, result.value, a.defined & b.defined & scale.defined);
}

// Eight numbers into the bytes of two registers, divided by a power of two.
HANDLER(to_eight_small) {
  const u32 each = i.parameter[kOther] == kOtherF32 ? 1 : 2;  // numbers of a register
  Lanes room[9], result[2] = {};
  Known defined[2] = {~0ull, ~0ull};
  w.mask = w.exec;
  const Read scale = source<kNone>(w, i, 1, room[8].value);
  for (u32 k = 0; k < 8; k++) {
    const Read a = source<kNone>(w, i, 0, room[k].value, k / each);
    defined[k / 4].half[k / 2 % 2] &= (each == 1 ? static_cast<u64>(a.defined) : a.defined.half[k % 2]) & scale.defined;
    for (u32 lane = 0; lane < kLanes; lane++) {
      const u32 all = a.value[lane] >> (each == 2 ? 16 * (k % 2) : 0);
      const double value = each == 1 ? f32(all) : i.parameter[kOther] == kOtherF16 ? f16(all & 0xffff) : bf16(all & 0xffff);
      const double part = value / scale_of(scale.value[lane]);
      const u32 byte = small_bits(part, static_cast<int>(i.parameter[kDigits]), i.parameter[kIsOld], stays_finite);
      result[k / 4].value[lane] |= byte << 8 * (k % 4);
    }
  }
  for (u32 k = 0; k < 2; k++) {
    await_vector(w, i, i.destination + k);
    put(w, i.destination + k, result[k].value, defined[k]);
  }
}

// One byte or two: to as many registers, or to both halves of one. op_sel names a byte with its bits exchanged.
HANDLER(from_small) {
  Lanes room[2], result[2];
  w.mask = w.exec;
  const bool is_scaled = i.parameter[kIsScaled], is_packed = i.parameter[kOther] != kOtherF32;
  const u32 count = i.parameter[kNumbers], first = (i.half & 1) * 2 + (count == 1 ? i.half >> 1 & 1 : 0);
  const Read a = source<kNone>(w, i, 0, room[0].value), scale = is_scaled ? source<kNone>(w, i, 1, room[1].value) : a;
  for (u32 lane = 0; lane < kLanes; lane++) {
    const double factor = is_scaled ? scale_of(scale.value[lane]) : 1.0;
    u32 made[2] = {};
    for (u32 k = 0; k < count; k++) {
      const u32 byte = a.value[lane] >> 8 * (first + k) & 255;
      const double value = factor * small_float(byte, static_cast<int>(i.parameter[kDigits]), i.parameter[kIsOld]);
      const float rounded = static_cast<float>(value);
      made[k] = !is_packed ? bits(rounded) : i.parameter[kOther] == kOtherF16 ? bits16(value) : bits_bf16(rounded);
    }
    result[0].value[lane] = is_packed ? made[0] | made[1] << 16 : made[0], result[1].value[lane] = made[1];
  }
  const u64 defined = a.defined.half[first / 2] & (is_scaled ? static_cast<u64>(scale.defined) : ~0ull);
  for (u32 k = 0; k < (is_packed ? 1 : count); k++) {
    await_vector(w, i, i.destination + k);
    put(w, i.destination + k, result[k].value, defined);
  }
}

// From 32 bits to fp64, and back.
static float with_signs32(const Record& i, u64 value) {
  u32 all = static_cast<u32>(value);
  if (i.absolute & 1) all &= 0x7fffffff;
  if (i.negate & 1) all ^= 0x80000000;
  return f32(all);
}

HANDLER(v_cvt_f64_f32) {
  each64<1>(w, i, 0, [&](u64 a, u64, u64) { return bits64(static_cast<double>(with_signs32(i, a))); });
}
HANDLER(v_cvt_f64_i32) {
  each64<1>(w, i, 0, [](u64 a, u64, u64) { return bits64(static_cast<i32>(static_cast<u32>(a))); });
}
HANDLER(v_cvt_f64_u32) { each64<1>(w, i, 0, [](u64 a, u64, u64) { return bits64(static_cast<u32>(a)); }); }

template <class Operation>
static void from_double(Wave& w, const Record& i, Operation operation) {
  Lanes room[2], result;
  w.mask = w.exec;
  const Read low = source<kNone>(w, i, 0, room[0].value), high = source<kNone>(w, i, 0, room[1].value, 1);
  for (u32 lane = 0; lane < kLanes; lane++) {
    const double value = with_signs(i, 0, low.value[lane] | static_cast<u64>(high.value[lane]) << 32);
    result.value[lane] = operation(value);
  }
  put_result(w, i, result.value, low.defined & high.defined);
}

// To fp32 a subnormal number rounds as the least normal one does, which this CPU never takes as zero.
static double normal(double a) {
  const u64 size = bits64(a) & ~(1ull << 63);
  return size && size < 1ull << 52 ? std::copysign(0x1p-1022, a) : a;
}

HANDLER(v_cvt_f32_f64) { from_double(w, i, [&](double a) { return bits(modified(static_cast<float>(normal(a)), i)); }); }
HANDLER(v_cvt_i32_f64) {
  from_double(w, i, [](double a) {
    if (a != a) return 0u;
    return static_cast<u32>(a >= 0x1p31 ? INT32_MAX : a <= -0x1p31 ? INT32_MIN : static_cast<i32>(a));
  });
}
HANDLER(v_frexp_exp_i32_f64) {
  from_double(w, i, [](double a) {
    int exponent = 0;
    if (std::isfinite(a)) std::frexp(a, &exponent);
    return static_cast<u32>(exponent);
  });
}
HANDLER(v_cvt_u32_f64) {
  from_double(w, i, [](double a) { return !(a > 0) ? 0u : a >= 0x1p32 ? UINT32_MAX : static_cast<u32>(a); });
}

}  // namespace
