// Arithmetic and logic of integers, moves, and predicates.
#include "operators.h"

namespace integer_ops {

template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) return b == T(-1) ? 0 : static_cast<T>(a % b);
  return static_cast<T>(a % b);
}

template <class T>
T quotient_of(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}

template <class T>
T product(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}

template <class T>
T high_product(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> 8 * sizeof(T));
}

template <class T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}

template <class T, class Wide>
void of_width(const std::string& type) {
  handlers()["mul.wide." + type] = [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1));
    each(w, i, [&](u32 l) { return Format<Wide>::put(static_cast<Wide>(product<Wide>(static_cast<T>(a[l]), static_cast<T>(b[l])))); });
  };
  handlers()["mad.wide." + type] = [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
    each(w, i, [&](u32 l) {
      return Format<Wide>::put(sum<Wide>(product<Wide>(static_cast<T>(a[l]), static_cast<T>(b[l])), static_cast<Wide>(c[l])));
    });
  };
}

template <class T>
u64 bit_field(u64 value, u64 start, u64 count, u64) {
  const u32 from = start & 255, length = count & 255, bits = 8 * sizeof(T);
  const bool is_signed = std::is_signed_v<T>;
  u64 result = 0;
  const T whole = static_cast<T>(value);
  const u32 last = std::min(from + length - 1, bits - 1);
  const bool sign = is_signed && length && (static_cast<u64>(whole) >> last & 1);
  for (u32 k = 0; k < bits; k++) {
    const bool bit = k < length && from + k < bits ? static_cast<u64>(whole) >> (from + k) & 1 : sign;
    result |= static_cast<u64>(bit) << k;
  }
  return result;
}

template <class T>
void integers(const std::string& type) {
  auto& all = handlers();
  constexpr u32 bits = 8 * sizeof(T);
  all["add." + type] = binary<T>([](T a, T b) { return sum(a, b); });
  all["sub." + type] = binary<T>([](T a, T b) { return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b)); });
  all["mul.lo." + type] = binary<T>([](T a, T b) { return product(a, b); });
  all["mul.hi." + type] = binary<T>([](T a, T b) { return high_product(a, b); });
  all["mad.lo." + type] = ternary<T>([](T a, T b, T c) { return sum(product(a, b), c); });
  all["mad.hi." + type] = ternary<T>([](T a, T b, T c) { return sum(high_product(a, b), c); });
  all["div." + type] = binary<T>([](T a, T b) { return quotient_of(a, b); });
  all["rem." + type] = binary<T>([](T a, T b) { return remainder_of(a, b); });
  all["min." + type] = binary<T>([](T a, T b) { return std::min(a, b); });
  all["max." + type] = binary<T>([](T a, T b) { return std::max(a, b); });
  all["neg." + type] = unary<T>([](T a) { return static_cast<T>(0 - static_cast<u64>(a)); });
  all["abs." + type] = unary<T>([](T a) { return a < T(0) ? static_cast<T>(0 - static_cast<u64>(a)) : a; });
  all["shr." + type] = raw([](u64 a, u64 count, u64, u64) -> u64 {
    const u64 by = std::min<u64>(static_cast<u32>(count), bits - 1);
    if (!std::is_signed_v<T> && static_cast<u32>(count) >= bits) return 0;
    return static_cast<u64>(static_cast<T>(a) >> by);
  });
  all["bfe." + type] = raw([](u64 a, u64 b, u64 c, u64) { return bit_field<T>(a, b, c, 0); });
  all["setp.eq." + type] = comparison<T>([](T a, T b) { return a == b; });
  all["setp.ne." + type] = comparison<T>([](T a, T b) { return a != b; });
  all["setp.lt." + type] = comparison<T>([](T a, T b) { return a < b; });
  all["setp.le." + type] = comparison<T>([](T a, T b) { return a <= b; });
  all["setp.gt." + type] = comparison<T>([](T a, T b) { return a > b; });
  all["setp.ge." + type] = comparison<T>([](T a, T b) { return a >= b; });
}

template <class T>
void bits_as_they_are(const std::string& width) {
  auto& all = handlers();
  constexpr u32 bits = 8 * sizeof(T);
  all["and.b" + width] = raw([](u64 a, u64 b, u64, u64) { return a & b; });
  all["or.b" + width] = raw([](u64 a, u64 b, u64, u64) { return a | b; });
  all["xor.b" + width] = raw([](u64 a, u64 b, u64, u64) { return a ^ b; });
  all["not.b" + width] = raw([](u64 a, u64, u64, u64) { return ~a; });
  all["cnot.b" + width] = raw([](u64 a, u64, u64, u64) -> u64 { return static_cast<T>(a) == 0; });
  all["shl.b" + width] = raw([](u64 a, u64 n, u64, u64) -> u64 { return static_cast<u32>(n) >= bits ? 0 : a << (n & 63); });
  all["brev.b" + width] = raw([](u64 a, u64, u64, u64) -> u64 {
    return bits == 32 ? reversed(static_cast<u32>(a))
                      : static_cast<u64>(reversed(static_cast<u32>(a))) << 32 | reversed(static_cast<u32>(a >> 32));
  });
  all["popc.b" + width] = raw([](u64 a, u64, u64, u64) -> u64 { return __builtin_popcountll(static_cast<T>(a)); });
  all["clz.b" + width] = raw([](u64 a, u64, u64, u64) -> u64 {
    return static_cast<T>(a) ? __builtin_clzll(static_cast<T>(a)) - (64 - bits) : bits;
  });
  all["bfi.b" + width] = raw([](u64 a, u64 b, u64 start, u64 count) -> u64 {
    u64 result = b;
    for (u32 k = 0; k < (count & 255) && (start & 255) + k < bits; k++) {
      const u32 at = (start & 255) + k;
      result = (result & ~(1ull << at)) | (a >> k & 1) << at;
    }
    return result;
  });
  all["setp.eq.b" + width] = comparison<T>([](T a, T b) { return a == b; });
  all["setp.ne.b" + width] = comparison<T>([](T a, T b) { return a != b; });
}

template <class T>
u64 highest_bit(u64 value) {
  T x = static_cast<T>(value);
  if (std::is_signed_v<T> && x < T(0)) x = static_cast<T>(~x);
  const auto positive = static_cast<std::make_unsigned_t<T>>(x);
  return positive ? 63 - __builtin_clzll(positive) : 0xffffffff;
}

const bool is_registered = [] {
  integers<i16>("s16"), integers<u16>("u16"), integers<i32>("s32"), integers<u32>("u32");
  integers<i64>("s64"), integers<u64>("u64");
  of_width<i16, i32>("s16"), of_width<u16, u32>("u16"), of_width<i32, i64>("s32"), of_width<u32, u64>("u32");
  bits_as_they_are<u16>("16"), bits_as_they_are<u32>("32"), bits_as_they_are<u64>("64");
  auto& all = handlers();
  all["bfind.u32"] = raw([](u64 a, u64, u64, u64) { return highest_bit<u32>(a); });
  all["bfind.s32"] = raw([](u64 a, u64, u64, u64) { return highest_bit<i32>(a); });
  all["bfind.u64"] = raw([](u64 a, u64, u64, u64) { return highest_bit<u64>(a); });
  all["bfind.s64"] = raw([](u64 a, u64, u64, u64) { return highest_bit<i64>(a); });
  all["mov"] = raw([](u64 a, u64, u64, u64) { return a; });
  return true;
}();

// shf: the middle of a number of 64 bits; parameter 0 says to the right, 1 that larger counts are taken as 32.
HANDLER(shf) {
  const u64 *low = w.lanes(origin(w, i, 0)), *high = w.lanes(origin(w, i, 1)), *count = w.lanes(origin(w, i, 2));
  each(w, i, [&](u32 l) -> u64 {
    const u64 both = high[l] << 32 | static_cast<u32>(low[l]);
    const u32 given = static_cast<u32>(count[l]), by = i.parameter[1] ? std::min(given, 32u) : given & 31;
    return i.parameter[0] ? static_cast<u32>(both >> by) : static_cast<u32>((both << by) >> 32);
  });
}

HANDLER(lop3) {
  const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
  const u32 table = static_cast<u32>(i.parameter[0]);
  each(w, i, [&](u32 l) -> u64 {
    u32 result = 0;
    for (u32 k = 0; k < 8; k++) {
      if (!(table >> k & 1)) continue;
      const auto one = [&](u64 value, u32 bit) { return k >> bit & 1 ? static_cast<u32>(value) : ~static_cast<u32>(value); };
      result |= one(a[l], 2) & one(b[l], 1) & one(c[l], 0);
    }
    return result;
  });
}

HANDLER(prmt) {
  const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
  each(w, i, [&](u32 l) -> u64 {
    const u64 both = static_cast<u32>(a[l]) | b[l] << 32;
    u32 result = 0;
    for (u32 k = 0; k < 4; k++) {
      const u32 which = static_cast<u32>(c[l]) >> 4 * k & 15;
      u32 byte = both >> 8 * (which & 7) & 255;
      if (which & 8) byte = byte >> 7 ? 255 : 0;
      result |= byte << 8 * k;
    }
    return result;
  });
}

HANDLER(dp4a) {  // parameters: whether each factor is signed
  const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
  const auto byte = [&](u64 value, u32 k, i64 is_signed) -> i32 {
    const u32 one = value >> 8 * k & 255;
    return is_signed ? static_cast<i8>(one) : static_cast<i32>(one);
  };
  each(w, i, [&](u32 l) -> u64 {
    u32 sum = static_cast<u32>(c[l]);
    for (u32 k = 0; k < 4; k++) sum += static_cast<u32>(byte(a[l], k, i.parameter[0]) * byte(b[l], k, i.parameter[1]));
    return sum;
  });
}

// mov of a vector: parameter 0 is the bits of a part.
HANDLER(pack) {
  const u32 bits = static_cast<u32>(i.parameter[0]);
  each(w, i, [&](u32 lane) {
    u64 result = 0;
    for (u32 k = 0; k < i.from; k++) {
      const u64 part = w.lanes(origin(w, i, k))[lane] & ((1ull << bits) - 1);
      result |= part << bits * k;
    }
    return result;
  });
}

HANDLER(unpack) {
  const u32 bits = static_cast<u32>(i.parameter[0]);
  u64 from[kLanes];
  memcpy(from, w.lanes(origin(w, i, 0)), sizeof from);
  for (u32 k = 0; k < i.to; k++) each(w, i, [&](u32 lane) { return from[lane] >> bits * k & ((1ull << bits) - 1); }, k);
}

// A source that is not chosen may be undefined.
HANDLER(selp) {
  const u32 condition = bits_of(w, origin(w, i, 2));
  const u32 yes = origin(w, i, 0), no = origin(w, i, 1);
  const u64 *a = w.lanes(yes), *b = w.lanes(no);
  u32 unknown[kLanes];
  for (u32 lane = 0; lane < kLanes; lane++) {
    unknown[lane] = unknown_in(w, condition >> lane & 1 ? yes : no, lane) | unknown_in(w, origin(w, i, 2), lane);
  }
  each(w, i, [&](u32 lane) { return condition >> lane & 1 ? a[lane] : b[lane]; });
  know(w, target(w, i), unknown);
}

// Predicates; parameter 0 has a bit for each source that is negated.
static u32 predicate(Wave& w, const Record& i, u32 k) {
  return bits_of(w, origin(w, i, k)) ^ (i.parameter[0] >> k & 1 ? ~0u : 0);
}

HANDLER(and_pred) { set_bits(w, target(w, i), predicate(w, i, 0) & predicate(w, i, 1)); }
HANDLER(or_pred) { set_bits(w, target(w, i), predicate(w, i, 0) | predicate(w, i, 1)); }
HANDLER(xor_pred) { set_bits(w, target(w, i), predicate(w, i, 0) ^ predicate(w, i, 1)); }
HANDLER(not_pred) { set_bits(w, target(w, i), ~predicate(w, i, 0)); }
HANDLER(mov_pred) { set_bits(w, target(w, i), predicate(w, i, 0)); }

// mad.cc and its like. Parameters: the high half of the product, takes a carry.
HANDLER(mad_carry) {
  const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
  const u32 before = i.parameter[1] ? bits_of(w, origin(w, i, 3)) : 0;
  u32 carry = 0;
  each(w, i, [&](u32 lane) -> u64 {
    const u64 product = static_cast<u64>(static_cast<u32>(a[lane])) * static_cast<u32>(b[lane]);
    const u64 part = i.parameter[0] ? product >> 32 : static_cast<u32>(product);
    const u64 sum = part + static_cast<u32>(c[lane]) + (before >> lane & 1);
    carry |= static_cast<u32>(sum >> 32 & 1) << lane;
    return static_cast<u32>(sum);
  });
  if (i.to > 1) set_bits(w, target(w, i, 1), carry);
}

// add.cc and its like: the predicate is the carry, which the translation gives a register.
HANDLER(add_carry) {  // parameters: bits, subtract, takes a carry
  const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1));
  const u32 before = i.parameter[2] ? bits_of(w, origin(w, i, 2)) : 0;
  const u64 whole = i.parameter[0] == 64 ? ~0ull : (1ull << i.parameter[0]) - 1;
  u32 carry = 0;
  each(w, i, [&](u32 lane) -> u64 {
    const unsigned __int128 x = a[lane] & whole, y = b[lane] & whole;
    const u32 in = before >> lane & 1;
    const unsigned __int128 result = i.parameter[1] ? x - y - in : x + y + in;
    carry |= static_cast<u32>(result >> i.parameter[0] & 1) << lane;
    return static_cast<u64>(result) & whole;
  });
  if (i.to > 1) set_bits(w, target(w, i, 1), carry);
}

}  // namespace integer_ops
