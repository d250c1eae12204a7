// Instructions that choose lanes, or move values between lanes and scalars.
#include <utility>

#include "vector_loops.h"

namespace {

template <Modifiers M>
static void choose(Wave& w, const Record& i) {
  Lanes room[2], result;
  w.mask = w.exec;
  const Read a = source<M>(w, i, 0, room[0].value), b = source<M>(w, i, 1, room[1].value);
  const u64 second = source_mask(w, i, 2);
  for (u32 lane = 0; lane < kLanes; lane++) {
    result.value[lane] = second >> lane & 1 ? b.value[lane] : a.value[lane];
  }
  const Known known = chosen(second, b.defined, a.defined);
  if (M == kHalf) put_half(w, i, result.value, known);
  else put_result(w, i, result.value, known);
}

HANDLER(v_cndmask_b32) { choose<kFloat>(w, i); }
HANDLER(v_cndmask_b16) { choose<kHalf>(w, i); }

static u32 lane_of(const Wave& w, u32 value) { return value & (w.lanes - 1); }

// Nothing is known of the halves of a scalar: one is enough.
static void check_scalar(Wave& w, const Record& i, u32 lane) {
  const Known& known = w.defined[i.source[0].number];
  if (!((known.half[0] | known.half[1]) >> lane & 1)) report(w, i, kUndefined, i.source[0].number, 2);
}

// clamp: the register holds scalars that are spilled, and one may be that nobody has written
HANDLER(v_readlane_b32) {
  await_vector(w, i, i.source[0].number);
  const u32 lane = lane_of(w, source32(w, i, 1));
  if (!i.clamp) check_scalar(w, i, lane);
  result32(w, i, w.vector[i.source[0].number][lane]);
}

HANDLER(v_readfirstlane_b32) {
  if (i.source[0].kind != kVector) {
    result32(w, i, source32(w, i, 0));
    return;
  }
  await_vector(w, i, i.source[0].number);
  const u32 lane = w.exec ? static_cast<u32>(__builtin_ctzll(w.exec)) : 0;
  check_scalar(w, i, lane);
  result32(w, i, w.vector[i.source[0].number][lane]);
}

HANDLER(v_writelane_b32) {
  const u32 lane = lane_of(w, source32(w, i, 1));
  await_vector(w, i, i.destination);
  w.vector[i.destination][lane] = source32(w, i, 0);
  w.defined[i.destination].take(lane, ~0ull, lane);
}

// How many of the lanes before this one a mask has.
template <class Count>
static void count_lanes(Wave& w, const Record& i, Count count) {
  Lanes room[2], result;
  w.mask = w.exec;
  const Read a = source<kNone>(w, i, 0, room[0].value), b = source<kNone>(w, i, 1, room[1].value);
  for (u32 lane = 0; lane < kLanes; lane++) {
    result.value[lane] = b.value[lane] + static_cast<u32>(__builtin_popcount(a.value[lane] & count(lane)));
  }
  put_result(w, i, result.value, a.defined & b.defined);
}

HANDLER(v_mbcnt_lo_u32_b32) { count_lanes(w, i, [](u32 lane) { return lane >= 32 ? ~0u : (1u << lane) - 1; }); }
HANDLER(v_mbcnt_hi_u32_b32) { count_lanes(w, i, [](u32 lane) { return lane <= 32 ? 0 : (1u << (lane - 32)) - 1; }); }

static void swap_rows(Wave& w, const Record& i, u32 width) {
  const u32 first = i.destination, second = i.source[0].number;
  await_vector(w, i, first);
  await_vector(w, i, second);
  for (u32 start = 0; start < kLanes; start += 2 * width) {
    for (u32 lane = start; lane < start + width; lane++) {
      std::swap(w.vector[first][lane + width], w.vector[second][lane]);
      const Known up = w.defined[first];
      w.defined[first].take(lane + width, w.defined[second], lane);
      w.defined[second].take(lane, up, lane + width);
    }
  }
}

HANDLER(v_permlane32_swap_b32) { swap_rows(w, i, 32); }
HANDLER(v_permlane16_swap_b32) { swap_rows(w, i, 16); }

// Each lane reads the lane of its row, or of the other row of a pair, that a list of 16 numbers names.
static void permute_rows(Wave& w, const Record& i, u32 other) {
  Lanes result = {};
  Known defined = ~0ull;
  await_vector(w, i, i.source[0].number);
  const u64 list = source32(w, i, 1) | static_cast<u64>(source32(w, i, 2)) << 32;
  w.mask = w.exec;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const u32 from = ((lane & ~15u) ^ other) | (list >> 4 * (lane & 15) & 15);
    const bool is_there = (w.exec >> from & 1) || (i.half & 1);
    result.value[lane] = is_there ? w.vector[i.source[0].number][from] : 0;
    if (is_there) defined.take(lane, w.defined[i.source[0].number], from);
    if (!is_there && !(i.half >> 1 & 1)) w.mask &= ~(1ull << lane);
  }
  await_vector(w, i, i.destination);
  put(w, i.destination, result.value, defined);
}

// As before, but each lane names the one that it reads.
static void permute_rows_by_lanes(Wave& w, const Record& i, u32 other) {
  Lanes room, result = {};
  Known defined = ~0ull;
  await_vector(w, i, i.source[0].number);
  w.mask = w.exec;
  const Read chosen_by = source<kNone>(w, i, 1, room.value);
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const u32 from = ((lane & ~15u) ^ other) | (chosen_by.value[lane] & 15);
    const bool is_there = (w.exec >> from & 1) || (i.half & 1);
    result.value[lane] = is_there ? w.vector[i.source[0].number][from] : 0;
    if (is_there) defined.take(lane, w.defined[i.source[0].number], from);
    if (!is_there && !(i.half >> 1 & 1)) w.mask &= ~(1ull << lane);
  }
  await_vector(w, i, i.destination);
  put(w, i.destination, result.value, defined);
}

HANDLER(v_permlane16_var_b32) { permute_rows_by_lanes(w, i, 0); }
HANDLER(v_permlanex16_var_b32) { permute_rows_by_lanes(w, i, 16); }
HANDLER(v_permlane16_b32) { permute_rows(w, i, 0); }
HANDLER(v_permlanex16_b32) { permute_rows(w, i, 16); }

// Two instructions at once: both read before either writes. Each is a record of its own behind this one.
HANDLER(v_dual) {
  const Record &x = (&i)[1], &y = (&i)[2];
  const u32 count = i.parameter[0];  // of registers of the first result
  Lanes before[2], result[2];
  Known defined_before[2], defined[2];
  const auto keep = [&](Lanes* values, Known* known) {
    for (u32 k = 0; k < count; k++) {
      memcpy(values[k].value, w.vector[x.destination + k], sizeof values[k].value), known[k] = w.defined[x.destination + k];
    }
  };
  const auto give_back = [&](const Lanes* values, const Known* known) {
    for (u32 k = 0; k < count; k++) {
      memcpy(w.vector[x.destination + k], values[k].value, sizeof values[k].value), w.defined[x.destination + k] = known[k];
    }
  };
  keep(before, defined_before);
  perform(w, x);
  keep(result, defined);
  give_back(before, defined_before);
  perform(w, y);
  give_back(result, defined);
  w.next += 2;
}

}  // namespace
