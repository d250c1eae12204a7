// Operations that go on while a warp runs: cp.async, mbarrier, and copies in bulk.
#include "memory.h"

namespace async_ops {

// Write bytes of global memory, or zeros, into shared memory, as an agent of the warp does it.
void copy_in(Wave& w, const Record& i, u64 to, u64 from, u32 given, u32 size, u32 agent, u32 clock) {
  if (!is_aligned(w, i, to, size < 16 ? size : 16)) return;
  char* place = shared_place(w, i, to, size);
  if (!place) return;
  std::vector<char> data(size, 0);
  if (given) {
    if (!is_aligned(w, i, from, size < 16 ? size : 16)) return;
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

// cp.async.bulk out of shared memory. Sources: to, from, bytes.
HANDLER(bulk_out) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), kInAddress);
  const u32 clock = ++w.bulk.count;
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    const u64 to = w.lanes(origin(w, i, 0))[lane], from = inside(w.lanes(origin(w, i, 1))[lane], kShared);
    const u32 size = static_cast<u32>(w.lanes(origin(w, i, 2))[lane]);
    if (!is_aligned(w, i, to, 16) || !is_aligned(w, i, from, 16)) continue;
    const char* source = shared_place(w, i, from, size);
    char* place = global_place(w, i, to, size, true);
    if (!source || !place) continue;
    for (u32 k = 0; k < size; k++) {
      shared_read(w, i, from + k, bulk_of(w), clock);
      if (!w.group->bytes[from + k].defined) report(w, i, kUndefined, 0, kAsData);
    }
    global_write(w, i, place, to, source, size, false);
    memcpy(place, source, size);
  }
}

HANDLER(bulk_commit) { w.bulk.commit(); }

HANDLER(bulk_wait) {
  u32& known = w.clocks[bulk_of(w)];
  known = std::max(known, w.bulk.done_with(static_cast<u64>(i.parameter[0])));
}

}  // namespace async_ops
