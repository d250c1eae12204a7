// cvt: from one type to another, with rounding and saturation.
#include "operators.h"

namespace conversion_ops {

// The types by the numbers that the translation gives them.
enum Type : u32 { kS8, kU8, kS16, kU16, kS32, kU32, kS64, kU64, kF16, kBf16, kF32, kF64, kTf32, kE4m3, kE5m2 };
enum ConversionParameter { kTo, kFrom, kMode, kSaturates, kFlushes, kRelus };

bool is_float(u32 type) { return type >= kF16; }
u32 bits_of_type(u32 type) {
  static const u32 bits[] = {8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 32, 8, 8};
  return bits[type];
}
bool is_signed(u32 type) { return type < kF16 && type % 2 == 0; }

__int128 whole(u64 bits, u32 type) {
  switch (type) {
    case kS8: return static_cast<i8>(bits);
    case kU8: return static_cast<u8>(bits);
    case kS16: return static_cast<i16>(bits);
    case kU16: return static_cast<u16>(bits);
    case kS32: return static_cast<i32>(bits);
    case kU32: return static_cast<u32>(bits);
    case kS64: return static_cast<i64>(bits);
    default: return bits;
  }
}

int digits_of(u32 type) { return type == kE4m3 ? 3 : 2; }

double number(u64 bits, u32 type) {
  switch (type) {
    case kF16: return f16(static_cast<u32>(bits));
    case kBf16: return bf16(static_cast<u32>(bits) & 0xffff);
    case kF64: return f64(bits);
    case kTf32: return tf32(static_cast<u32>(bits));
    case kE4m3: case kE5m2: return small_float(bits & 255, digits_of(type));
    default: return f32(static_cast<u32>(bits));
  }
}

u64 from_number(double value, const Record& i) {
  const u32 type = static_cast<u32>(i.parameter[kTo]), mode = static_cast<u32>(i.parameter[kMode]);
  if (i.parameter[kSaturates] && type <= kF64) value = value != value || value < 0 ? 0.0 : std::min(value, 1.0);
  if (i.parameter[kRelus]) value = value < 0 ? 0.0 : value;
  switch (type) {
    case kF16: return Format<F16>::put(value, mode);
    case kBf16: return Format<Bf16>::put(value, mode);
    case kF64: return Format<double>::put(value);
    case kTf32: return value != value ? kNanF32 : bits(static_cast<float>(rounded(value, 10, -126, kMostTf32, mode)));
    case kE4m3: case kE5m2: return value != value ? 127 : small_bits(value, digits_of(type), false, true);
    default: return canonical(static_cast<float>(rounded(value, 23, -126, kMostF32, mode)));
  }
}

// A number that does not fit becomes the nearest that does, and NaN zero.
u64 to_integer(double value, u32 type, u32 mode) {
  const u32 bits = bits_of_type(type);
  if (value != value) return bits == 64 ? 1ull << 63 : 0;
  value = to_whole(value, mode);
  const double most = std::ldexp(1.0, static_cast<int>(bits) - is_signed(type));
  if (is_signed(type)) {
    if (value >= most) return (1ull << (bits - 1)) - 1;
    if (value < -most) return static_cast<u64>(-1) << (bits - 1);
    return static_cast<u64>(static_cast<i64>(value));
  }
  if (value < 0) return 0;
  return value >= most ? ~0ull >> (64 - bits) : static_cast<u64>(value);
}

u64 saturated(__int128 value, u32 type) {
  const u32 bits = bits_of_type(type);
  const __int128 one = 1, most = (one << (bits - is_signed(type))) - 1, least = is_signed(type) ? -(one << (bits - 1)) : 0;
  return static_cast<u64>(value > most ? most : value < least ? least : value);
}

u64 from_integer(__int128 value, const Record& i) {
  const u32 type = static_cast<u32>(i.parameter[kTo]), mode = static_cast<u32>(i.parameter[kMode]);
  const bool positive = value >= 0;
  const u64 size = static_cast<u64>(positive ? value : -value);
  double high = static_cast<double>(size >> 32) * 0x1p32, low = static_cast<double>(size & 0xffffffff);
  if (!positive) high = -high, low = -low;
  if (type == kF64) return bits64(high + low);
  const double exact = high == 0 ? low : low == 0 ? high : odd_sum(high, low);
  Record other = i;
  other.parameter[kMode] = mode;
  return from_number(exact, other);
}

double given_number(u64 bits, const Record& i) {
  const double value = number(bits, static_cast<u32>(i.parameter[kFrom]));
  return i.parameter[kFlushes] && i.parameter[kFrom] == kF32 ? flushed(static_cast<float>(value)) : value;
}

u64 converted(u64 value, const Record& i) {
  const u32 to = static_cast<u32>(i.parameter[kTo]), from = static_cast<u32>(i.parameter[kFrom]);
  if (!is_float(from)) {
    const __int128 given = whole(value, from);
    if (is_float(to)) return from_integer(given, i);
    return i.parameter[kSaturates] ? saturated(given, to) : static_cast<u64>(whole(static_cast<u64>(given), to));
  }
  const double given = given_number(value, i);
  if (!is_float(to)) return to_integer(given, to, static_cast<u32>(i.parameter[kMode]));
  if (i.parameter[kFlushes] && to == kF32) {
    return canonical(flushed(f32(static_cast<u32>(from_number(given, i)))));
  }
  return from_number(given, i);
}

HANDLER(cvt) {
  const u64* a = w.lanes(origin(w, i, 0));
  each(w, i, [&](u32 lane) { return converted(a[lane], i); });
}

// The integral number in a floating-point format: cvt.rni.f32.f32 and its like.
HANDLER(cvt_whole) {
  const u64* a = w.lanes(origin(w, i, 0));
  Record exact = i;
  exact.parameter[kMode] = kNearest;
  each(w, i, [&](u32 lane) {
    const double value = given_number(a[lane], i);
    return from_number(std::copysign(to_whole(value, static_cast<u32>(i.parameter[kMode])), value), exact);
  });
}

// Of pairs: the first source becomes the upper half; or both halves of one source.
HANDLER(cvt_pair) {
  const u64 *high = w.lanes(origin(w, i, 0)), *low = w.lanes(origin(w, i, i.from > 1 ? 1 : 0));
  const u32 from = bits_of_type(static_cast<u32>(i.parameter[kFrom])), to = bits_of_type(static_cast<u32>(i.parameter[kTo]));
  const u32 part = i.from > 1 ? 0 : from;
  const u64 given = from == 64 ? ~0ull : (1ull << from) - 1, kept = (1ull << to) - 1;
  each(w, i, [&](u32 lane) {
    const u64 above = converted(high[lane] >> part & given, i), below = converted(low[lane] & given, i);
    return (above & kept) << to | (below & kept);
  });
}

const bool is_registered = [] {
  auto& all = handlers();
  all["cvt.f32.bf16"] = raw([](u64 a, u64, u64, u64) -> u64 { return (a & 0xffff) << 16; });
  all["cvt.f32.f16"] = raw([](u64 a, u64, u64, u64) -> u64 { return canonical(f16(static_cast<u32>(a))); });
  all["cvt.bf16.f32"] = raw([](u64 a, u64, u64, u64) -> u64 { return canonical_bf16(f32(static_cast<u32>(a))); });
  all["cvt.f16.f32"] = raw([](u64 a, u64, u64, u64) -> u64 { return canonical16(f32(static_cast<u32>(a))); });
  all["cvt.bf16x2.f32"] = raw([](u64 a, u64 b, u64, u64) -> u64 {
    return canonical_bf16(f32(static_cast<u32>(a))) << 16 | canonical_bf16(f32(static_cast<u32>(b)));
  });
  all["cvt.f16x2.f32"] = raw([](u64 a, u64 b, u64, u64) -> u64 {
    return canonical16(f32(static_cast<u32>(a))) << 16 | canonical16(f32(static_cast<u32>(b)));
  });
  return true;
}();

}  // namespace conversion_ops
