// Conversions between integers and floating point numbers.
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

HANDLER(v_cvt_f32_f64) { from_double(w, i, [&](double a) { return bits(modified(static_cast<float>(a), i)); }); }
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
