// Operations that go on while a warp runs: cp.async, mbarrier, and copies in bulk.
#include "memory.h"

namespace async_ops {

// Write bytes of global memory, or zeros, into shared memory, as an agent of the warp does it.
void copy_in(Wave& w, const Record& i, u64 to, u64 from, u32 given, u32 size, u32 agent, u32 clock, u32 align = 16) {
  if (!is_aligned(w, i, to, size < 16 ? size : 16)) return;
  char* place = shared_place(w, i, to, size);
  if (!place) return;
  std::vector<char> data(size, 0);
  if (given) {
    if (!is_aligned(w, i, from, std::min(size, align))) return;
    const char* source = global_place(w, i, from, given, false);
    if (!source) return;
    memcpy(data.data(), source, given);
    if (!global_read(w, i, source, from, given)) report(w, i, kRaceInMemory, w.raced_address, w.raced_with);
  }
  for (u32 k = 0; k < size; k++) {
    shared_write(w, i, to + k, agent, clock, place[k] == data[k] && w.group->bytes[to + k].defined);
    w.group->bytes[to + k].defined = true;
  }
  memcpy(place, data.data(), size);
}

// Sources: the places in shared and in global memory, and how many bytes are read. Parameter 3: the offset of the second.
HANDLER(cp_async) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  const u32 size = static_cast<u32>(i.parameter[kBytes]), clock = ++w.copies.count;
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u64 to = inside(address_of(w, i, lane), kShared);
    const u64 from = w.lanes(origin(w, i, 1))[lane] + static_cast<u64>(i.parameter[3]);
    const u32 given = i.from > 2 ? std::min(static_cast<u32>(w.lanes(origin(w, i, 2))[lane]), size) : size;
    copy_in(w, i, to, from, given, size, copies_of(w), clock);
  }
}

HANDLER(cp_async_commit) { w.copies.commit(); }

HANDLER(cp_async_wait) {  // parameter 0: how many groups may go on; -1: wait for all copies
  const u32 done = i.parameter[0] < 0 ? w.copies.count : w.copies.done_with(static_cast<u64>(i.parameter[0]));
  u32& known = w.clocks[copies_of(w)];
  known = std::max(known, done);
}

enum Operation { kInit, kInvalidate, kArrive, kArriveExpect, kExpect, kComplete, kWaitState, kWaitParity, kCopiesArrive };

Transaction* transaction(Wave& w, const Record& i, u64 at) {
  auto place = w.group->transactions.find(at);
  if (place != w.group->transactions.end()) return &place->second;
  report(w, i, kUnknownForm, at);
  return nullptr;
}

void look_at(Group& g, Transaction& one) {
  if (one.pending || one.bytes) return;
  one.phase++, one.pending = one.expected;
  one.released = one.arriving;
  g.interval++;
}

void arrive(Wave& w, Transaction& one, u32 count) {
  join(one.arriving, w.clocks);
  w.clocks[w.number]++;
  one.pending -= std::min(one.pending, count);
}

// Whether the phase has ended that the lane waits for.
bool has_ended(Wave& w, const Record& i, const Transaction& one, u64 given) {
  if (i.parameter[2] == kWaitParity ? (one.phase & 1) == (given & 1) : one.phase == given) return false;
  join(w.clocks, one.released);
  return true;
}

u64 operate(Wave& w, const Record& i, Transaction& one, u64 given) {
  const u64 before = one.phase;
  switch (i.parameter[2]) {
    case kArrive: arrive(w, one, static_cast<u32>(given)); break;
    case kArriveExpect: one.bytes += static_cast<i64>(given), arrive(w, one, 1); break;
    case kExpect: one.bytes += static_cast<i64>(given); break;
    case kComplete: one.bytes -= static_cast<i64>(given); break;
    case kCopiesArrive: {  // the copies of this warp until now are known to whom the barrier lets go; parameter 4: .noinc
      if (!i.parameter[4]) one.pending++;
      const u32 known = w.clocks[copies_of(w)];
      w.clocks[copies_of(w)] = w.copies.count;
      arrive(w, one, 1);
      w.clocks[copies_of(w)] = known;
      break;
    }
    default: break;
  }
  look_at(*w.group, one);
  return before;
}

// Sources: the address, and a count, bytes, a state or a parity.
HANDLER(mbarrier) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  const u32 operation = static_cast<u32>(i.parameter[2]);
  u32 ended = 0;
  u64 states[kLanes] = {};
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u64 at = inside(address_of(w, i, lane), kShared), given = i.from > 1 ? w.lanes(origin(w, i, 1))[lane] : 1;
    if (operation == kInit) {
      const u32 count = static_cast<u32>(given);
      const Clocks none(w.group->agents, 0);
      w.group->transactions[at] = {count, count, 0, 0, none, none};
    } else if (Transaction* one = transaction(w, i, at)) {
      if (operation == kInvalidate) w.group->transactions.erase(at);
      else if (operation >= kWaitState && operation <= kWaitParity) ended |= has_ended(w, i, *one, given) << lane;
      else states[lane] = operate(w, i, *one, given);
    }
  }
  const bool waits = operation == kWaitState || operation == kWaitParity;
  if (waits) set_bits(w, target(w, i), ended), w.spinning = ended != w.mask;
  else if (i.to) each(w, i, [&](u32 lane) { return states[lane]; });
  if (i.to) define(w, target(w, i));
}

// cp.async.bulk into shared memory. Sources: to, from, bytes, the mbarrier.
HANDLER(bulk_in) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u64 to = inside(w.lanes(origin(w, i, 0))[lane], kShared), from = w.lanes(origin(w, i, 1))[lane];
    const u32 size = static_cast<u32>(w.lanes(origin(w, i, 2))[lane]), clock = ++w.group->bulk_clock;
    Transaction* one = transaction(w, i, inside(w.lanes(origin(w, i, 3))[lane], kShared));
    copy_in(w, i, to, from, size, size, engine_of(*w.group), clock);
    if (!one) continue;
    one->arriving[engine_of(*w.group)] = clock;
    one->bytes -= size;
    look_at(*w.group, *one);
  }
}

// Write bytes of shared memory into global memory, as an agent of the warp does it.
void copy_out(Wave& w, const Record& i, u64 to, u64 from, u32 size, u32 agent, u32 clock) {
  const char* source = shared_place(w, i, from, size);
  char* place = global_place(w, i, to, size, true);
  if (!source || !place) return;
  for (u32 k = 0; k < size; k++) {
    shared_read(w, i, from + k, agent, clock);
    if (!w.group->bytes[from + k].defined) report(w, i, kUndefined, 0, kAsData);
  }
  global_write(w, i, place, to, source, size, false);
  memcpy(place, source, size);
}

// cp.async.bulk out of shared memory. Sources: to, from, bytes.
HANDLER(bulk_out) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  const u32 clock = ++w.bulk.count;
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u64 to = w.lanes(origin(w, i, 0))[lane], from = inside(w.lanes(origin(w, i, 1))[lane], kShared);
    const u32 size = static_cast<u32>(w.lanes(origin(w, i, 2))[lane]);
    if (!is_aligned(w, i, to, 16) || !is_aligned(w, i, from, 16)) continue;
    copy_out(w, i, to, from, size, bulk_of(w), clock);
  }
}

// A tensor map: 128 bytes whose layout is our own; tensormap.replace writes the fields.
struct Map {
  u64 address, stride[4];
  u32 rank, size[5], box[5], step[5], type, interleave, swizzle, fill, unused[2];
};
static_assert(sizeof(Map) == 128);

bool read_map(Wave& w, const Record& i, u64 at, Map* map) {
  const char* place = global_place(w, i, at, sizeof *map, false);
  if (!place) return false;
  if (!global_read(w, i, place, at, sizeof *map)) report(w, i, kRaceInMemory, w.raced_address, w.raced_with);
  memcpy(map, place, sizeof *map);
  bool is_known = map->rank + 1 == i.parameter[0] && map->type < 13 && map->swizzle < 4 && !map->interleave && !map->fill;
  for (u32 k = 0; is_known && k <= map->rank; k++) is_known = map->step[k] == 1 && map->box[k] && map->box[k] <= 256;
  if (!is_known) report(w, i, kUnknownMap, at);
  return is_known;
}

// Tell of each part of a tile its place in shared memory, its address, the bytes of it that are in the tensor, and its size.
template <class Move>
void each_part(const Map& map, const i32* start, u64 shared, Move move) {
  static const u32 bytes_of_type[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  const u32 bytes = bytes_of_type[map.type], row = map.box[0] * bytes, part = start[0] < 0 ? bytes : std::min(16u, row);
  u32 rows = 1;
  for (u32 k = 1; k <= map.rank; k++) rows *= map.box[k];
  for (u32 number = 0; number < rows; number++) {
    u64 from = map.address;
    bool is_inside = true;
    for (u32 k = 1, rest = number; k <= map.rank; rest /= map.box[k++]) {
      const i64 coordinate = static_cast<i64>(start[k]) + rest % map.box[k];
      is_inside &= coordinate >= 0 && coordinate < static_cast<i64>(map.size[k]);
      from += static_cast<u64>(coordinate) * map.stride[k - 1];
    }
    for (u32 at = 0; at < row; at += part) {
      const i64 x = static_cast<i64>(start[0]) + at / bytes, left = (static_cast<i64>(map.size[0]) - x) * bytes;
      const u32 given = is_inside && x >= 0 && left > 0 ? static_cast<u32>(std::min<i64>(left, part)) : 0;
      const u64 to = shared + static_cast<u64>(number) * row + at, mask = (1u << map.swizzle) - 1;
      move(to ^ (to >> 7 & mask) << 4, from + static_cast<u64>(x * bytes), given, part, bytes);
    }
  }
}

// cp.async.bulk.tensor: parameter 0: how many dimensions. Sources: shared memory, the map, the mbarrier of what goes in,
// and the coordinates.
template <class Move>
void each_tile(Wave& w, const Record& i, u32 before, Move move) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  for (u32 lane = 0; lane < kLanes; lane++) {
    Map map;
    if (!(w.mask >> lane & 1) || !read_map(w, i, w.lanes(origin(w, i, 1))[lane], &map)) continue;
    const u64 shared = inside(w.lanes(origin(w, i, 0))[lane], kShared);
    i32 start[5] = {};
    for (u32 k = 0; k <= map.rank; k++) start[k] = s32(static_cast<u32>(w.lanes(origin(w, i, before + k))[lane]));
    if (is_aligned(w, i, shared, 128)) move(map, start, shared, lane);
  }
}

HANDLER(tile_in) {
  each_tile(w, i, 3, [&](const Map& map, const i32* start, u64 shared, u32 lane) {
    const u32 clock = ++w.group->bulk_clock;
    Transaction* one = transaction(w, i, inside(w.lanes(origin(w, i, 2))[lane], kShared));
    u32 all = 0;
    each_part(map, start, shared, [&](u64 to, u64 from, u32 given, u32 size, u32 align) {
      copy_in(w, i, to, from, given, size, engine_of(*w.group), clock, align);
      all += size;
    });
    if (!one) return;
    one->arriving[engine_of(*w.group)] = clock;
    one->bytes -= all;
    look_at(*w.group, *one);
  });
}

HANDLER(tile_out) {
  const u32 clock = ++w.bulk.count;
  each_tile(w, i, 2, [&](const Map& map, const i32* start, u64 shared, u32) {
    each_part(map, start, shared, [&](u64 from, u64 to, u32 given, u32, u32) {
      if (given) copy_out(w, i, to, from, given, bulk_of(w), clock);
    });
  });
}

// tensormap.cp_fenceproxy: all lanes ask for the same copy.
HANDLER(map_out) {
  const u32 lane = static_cast<u32>(__builtin_ctz(w.mask));
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  const u64 to = w.lanes(origin(w, i, 0))[lane], from = inside(w.lanes(origin(w, i, 1))[lane], kShared);
  if (is_aligned(w, i, to, 64)) copy_out(w, i, to, from, sizeof(Map), w.number, w.clocks[w.number]);
}

HANDLER(bulk_commit) { w.bulk.commit(); }

HANDLER(bulk_wait) {
  u32& known = w.clocks[bulk_of(w)];
  known = std::max(known, w.bulk.done_with(static_cast<u64>(i.parameter[0])));
}

}  // namespace async_ops
