// Exchanges between the lanes of a warp, votes and sums.
#include <algorithm>

#include "state.h"

namespace lane_ops {

enum Shuffle { kUp, kDown, kButterfly, kIndex };

// shfl.sync: a source lane that is not on gives what is undefined.
HANDLER(shfl) {
  const u64 *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
  const u32 source = origin(w, i, 0);
  u64 a[kLanes], result[kLanes];
  memcpy(a, w.lanes(source), sizeof a);
  u32 inside = 0, unknown[kLanes];
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u32 by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const u32 most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    u32 from = lane;
    bool is_inside = false;
    switch (i.parameter[0]) {
      case kUp: from = lane - by, is_inside = static_cast<i32>(lane - by) >= static_cast<i32>(most); break;
      case kDown: from = lane + by, is_inside = from <= most; break;
      case kButterfly: from = lane ^ by, is_inside = from <= most; break;
      default: from = least | (by & ~segment), is_inside = from <= most; break;
    }
    if (!is_inside) from = lane;
    result[lane] = static_cast<u32>(a[from & 31]);
    inside |= static_cast<u32>(is_inside) << lane;
    unknown[lane] = w.mask >> (from & 31) & 1 ? unknown_in(w, source, from & 31) : 0xff;
  }
  each(w, i, [&](u32 lane) { return result[lane]; });
  know(w, target(w, i), unknown);
  if (i.to > 1) set_bits(w, target(w, i, 1), inside), define(w, target(w, i, 1));
}

enum Vote { kAll, kAny, kUniform, kBallot };

HANDLER(vote) {  // parameter 1 negates the predicate
  const u32 source = origin(w, i, 0);
  check_defined(w, i, source, kAsCondition);
  const u32 votes = (bits_of(w, source) ^ (i.parameter[1] ? ~0u : 0)) & w.mask;
  const u32 to = target(w, i);
  if (i.parameter[0] == kBallot) each(w, i, [&](u32) -> u64 { return votes; });
  if (i.parameter[0] == kAll) set_bits(w, to, votes == w.mask ? ~0u : 0);
  if (i.parameter[0] == kAny) set_bits(w, to, votes ? ~0u : 0);
  if (i.parameter[0] == kUniform) set_bits(w, to, votes == 0 || votes == w.mask ? ~0u : 0);
  define(w, to);
}

HANDLER(activemask) {
  each(w, i, [&](u32) -> u64 { return w.mask; });
  define(w, target(w, i));
}

HANDLER(elect) {
  const u32 chosen = w.mask & -w.mask;
  each(w, i, [&](u32) -> u64 { return __builtin_ctz(chosen); });
  set_bits(w, target(w, i, 1), chosen);
  define(w, target(w, i)), define(w, target(w, i, 1));
}

HANDLER(match_any) {
  check_defined(w, i, origin(w, i, 0), kAsData);
  const u64 whole = i.parameter[0] == 64 ? ~0ull : 0xffffffff;
  u64 a[kLanes];
  memcpy(a, w.lanes(origin(w, i, 0)), sizeof a);
  each(w, i, [&](u32 lane) -> u64 {
    u32 same = 0;
    for (u32 k = 0; k < kLanes; k++) same |= static_cast<u32>((a[k] & whole) == (a[lane] & whole)) << k;
    return same & w.mask;
  });
  define(w, target(w, i));
}

enum Reduction { kAdd, kMin, kMax, kAnd, kOr, kXor };

HANDLER(redux) {  // parameter 1: signed
  check_defined(w, i, origin(w, i, 0), kAsData);
  const u64* a = w.lanes(origin(w, i, 0));
  bool is_first = true;
  u32 result = 0;
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u32 one = static_cast<u32>(a[lane]);
    const bool is_less = i.parameter[1] ? s32(one) < s32(result) : one < result;
    if (is_first) result = one, is_first = false;
    else if (i.parameter[0] == kAdd) result += one;
    else if (i.parameter[0] == kMin) result = is_less ? one : result;
    else if (i.parameter[0] == kMax) result = is_less ? result : one;
    else if (i.parameter[0] == kAnd) result &= one;
    else if (i.parameter[0] == kOr) result |= one;
    else result ^= one;
  }
  each(w, i, [&](u32) -> u64 { return result; });
  define(w, target(w, i));
}

}  // namespace lane_ops
