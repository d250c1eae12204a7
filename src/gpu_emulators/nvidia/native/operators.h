// From an operation on numbers to an instruction on registers: a handler for each type of the operands.
#pragma once

#include "state.h"

template <class T>
using Number = decltype(Format<T>::get(0));

// A number of the type's bits as what the operation is told; F has no state.
template <class T, class F>
static Handler* unary(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64* a = w.lanes(origin(w, i, 0));
    each(w, i, [&](u32 lane) { return Format<T>::put(F{}(Format<T>::get(a[lane]))); });
  };
}

template <class T, class F>
static Handler* binary(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1));
    each(w, i, [&](u32 lane) { return Format<T>::put(F{}(Format<T>::get(a[lane]), Format<T>::get(b[lane]))); });
  };
}

template <class T, class F>
static Handler* ternary(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
    each(w, i, [&](u32 lane) {
      return Format<T>::put(F{}(Format<T>::get(a[lane]), Format<T>::get(b[lane]), Format<T>::get(c[lane])));
    });
  };
}

// Operations on the bits as they are, of up to four sources.
template <class F>
static Handler* raw(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64* from[4] = {};
    for (u32 k = 0; k < 4; k++) from[k] = w.lanes(origin(w, i, k < i.from ? k : 0));
    each(w, i, [&](u32 lane) -> u64 { return F{}(from[0][lane], from[1][lane], from[2][lane], from[3][lane]); });
  };
}

// A comparison: one bit for each lane into a predicate. Of a pair the upper halves, which begin at a bit, are another.
template <class T, class F>
static Handler* comparison(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1));
    const u32 upper = static_cast<u32>(i.parameter[2]);
    const u64 whole = upper ? (1ull << upper) - 1 : ~0ull;
    const auto of = [&](u32 from) {
      u32 bits = 0;
      for (u32 lane = 0; lane < kLanes; lane++) {
        const auto x = Format<T>::get(a[lane] >> from & whole), y = Format<T>::get(b[lane] >> from & whole);
        bits |= static_cast<u32>(F{}(x, y) ? 1 : 0) << lane;
      }
      return bits;
    };
    u32 result = of(0), other = upper ? of(upper) : result ^ ~0u;
    if (i.from > 2) {  // combined with a predicate
      const u32 third = bits_of(w, origin(w, i, 2)) ^ (i.parameter[1] ? ~0u : 0);
      const auto both = [&](u32 x) { return i.parameter[0] == 1 ? x & third : i.parameter[0] == 2 ? x | third : x ^ third; };
      result = both(result), other = both(other);
    }
    set_bits(w, target(w, i), result);
    if (i.to > 1) set_bits(w, target(w, i, 1), other);
  };
}
