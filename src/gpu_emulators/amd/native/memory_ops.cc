// Loads, stores and atomics of global memory, buffers and private memory; loads through scalars.
#include "atomics.h"

namespace {

HANDLER(memory_load) {
  check_address(w, i);
  const u32 bytes = access_bytes(i), count = i.parameter[kCount];
  const u64 operation = w.memory.issue();
  const u64 flat = i.parameter[kSpace] == kFlat ? w.lds.issue() : 0;
  Known good[4] = {~0ull, ~0ull, ~0ull, ~0ull};  // what the bytes of the LDS say
  Lanes base;  // the address may be in a register that the load writes
  if (i.source[0].kind == kVector) memcpy(base.value, w.vector[i.source[0].number], sizeof base.value);
  std::vector<const char*> places(w.lanes, nullptr);
  u64 raced = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    bool has_raced = false;
    if (w.exec >> lane & 1) places[lane] = place_of(w, i, lane, bytes, false, &has_raced);
    raced |= static_cast<u64>(has_raced) << lane;
    if (flat && is_shared(w, places[lane])) note_read(w, i, lane, in_lds(w, places[lane]), bytes, good);
  }
  for (u32 k = 0; k < count; k++) {
    const u32 number = i.destination + k;
    fill(w, i, number, w.from_memory, operation, w.from_lds, w.lds);
    if (flat) w.from_lds[number].set(flat);
    define(w, i, number, w.exec, {good[k].half[0] & ~raced, good[k].half[1] & ~raced});
    for (u32 lane = 0; lane < w.lanes; lane++) {
      if (!(w.exec >> lane & 1)) continue;
      u32 value = 0;
      const u32 size = i.parameter[kBytes];
      if (places[lane]) memcpy(&value, places[lane] + 4 * k, size);
      if (size == 4) w.vector[number][lane] = value;
      else put_small(i, value, &w.vector[number][lane]);
    }
  }
}

// Look for a lane whose value another lane of the same instruction has overwritten with another one.
static void report_overwritten(Wave& w, const Record& i, char* const* places, const u32 (*values)[4], u32 bytes) {
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (places[lane] && memcmp(places[lane], values[lane], bytes)) {
      return report(w, i, kSamePlace, address_at(*w.group, places[lane]), lane);
    }
  }
}

HANDLER(memory_store) {
  static thread_local std::vector<Touched> touched;  // of the LDS
  check_address(w, i);
  const bool is_flat = i.parameter[kSpace] == kFlat;
  if (is_flat) w.lds.issue(), w.group->writes++, touched.clear();
  const u32 bytes = access_bytes(i), first = i.source[3].number;
  if (w.family == kCdna) w.memory.issue();  // RDNA counts stores apart
  for (u32 k = 0; k < i.parameter[kCount]; k++) await_vector(w, i, first + k, halves_of(i, false));
  u64 stored = 0;  // the lanes that store something: buffers have no place for masked ones
  char* places[kLanes] = {};
  u32 values[kLanes][4];
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    char* to = place_of(w, i, lane, bytes, true);
    if (!to) continue;
    u32* value = values[lane];
    for (u32 k = 0; k < i.parameter[kCount]; k++) value[k] = w.vector[first + k][lane];
    if (i.parameter[kPart] == 2) value[0] >>= 16;
    if (is_flat && is_shared(w, to)) {
      touch(w, i, lane, first, in_lds(w, to), bytes, touched);
    } else {
      if (!is_private(w, to)) stored |= 1ull << lane, places[lane] = to;  // a register may be spilled that nobody has written
      note_write(w, i, to, value, bytes, false);
    }
    memcpy(to, value, bytes);
  }
  if (is_flat && !touched.empty()) w.last_lds_write = w.lds.issued, check_writes(w, i, touched);
  report_overwritten(w, i, places, values, bytes);
  for (u32 k = 0; k < i.parameter[kCount]; k++) {
    if (stored & ~stored_of(w, i, first + k)) report(w, i, kUndefined, first + k, 1);
  }
  const bool is_late = i.parameter[kCount] > 2 && !(is_buffer(i) && i.source[2].kind == kScalar);
  w.stored = first, w.stored_count = is_late ? i.parameter[kCount] : 0, w.stored_at = w.clock;
}

// target: what to do with the old value; clamp: the old value comes back; parameter[kSign]: how many values come.
HANDLER(memory_atomic) {
  check_address(w, i);
  const u32 first = i.source[3].number, count = i.parameter[kCount], values = i.parameter[kSign];
  check_data(w, i, first, count * values);
  const bool returns = i.clamp;
  const u64 operation = returns || w.family == kCdna ? w.memory.issue() : 0;
  const u64 flat = i.parameter[kSpace] == kFlat ? w.lds.issue() : 0;
  Known good[2] = {~0ull, ~0ull};  // what the bytes of the LDS say
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    char* place = place_of(w, i, lane, 4 * count, true);
    if (!place) continue;
    if (is_private(w, place)) {  // which no text says what it does
      report(w, i, kUnknown, kToPrivate << 32, 2);
      continue;
    }
    u64 old = 0;
    memcpy(&old, place, 4 * count);
    const u64 wanted = values == 2 ? data_of(w, first + count, count, lane) : 0;
    const u64 value = combined_by(i.target, old, data_of(w, first, count, lane), wanted, count == 2);
    if (flat && is_shared(w, place)) w.last_lds_write = flat, note_atomic(w, i, lane, in_lds(w, place), 4 * count, good);
    else note_write(w, i, place, &value, 4 * count, true);
    memcpy(place, &value, 4 * count);
    for (u32 k = 0; returns && k < count; k++) {
      w.vector[i.destination + k][lane] = static_cast<u32>(old >> 32 * k);
    }
  }
  for (u32 k = 0; returns && k < count; k++) {
    w.defined[i.destination + k] = chosen(w.exec, good[k], w.defined[i.destination + k]);
    w.from_memory[i.destination + k].set(operation);
    if (flat) w.from_lds[i.destination + k].set(flat);
  }
}

enum ScalarParameter { kBytesOfScalar = 2, kHasSign, kScaleOfScalar = 5 };  // of each register; RDNA 4 loads one or two bytes too

HANDLER(scalar_load) {
  const u32 base = i.source[0].number, count = i.parameter[kCount];
  await_scalar(w, i, base);
  await_scalar(w, i, base + 1);
  u64 address = get_scalar(w, base) | static_cast<u64>(get_scalar(w, base + 1)) << 32;
  address += static_cast<i64>(i.immediate);
  if (i.source[1].kind == kScalar) address += static_cast<u64>(source32(w, i, 1)) * std::max(1u, i.parameter[kScaleOfScalar]);
  const u64 operation = (w.family == kRdna4 ? w.scalars : w.lds).issue();
  const u32 bytes = i.parameter[kBytesOfScalar], unused = 32 - 8 * bytes;
  const char* from = global_place(w, i, address & ~(bytes - 1ull), bytes * count, false);
  for (u32 k = 0; k < count; k++) {
    u32 value = 0;
    if (from) memcpy(&value, from + 4 * k, bytes);
    if (i.parameter[kHasSign]) value = static_cast<u32>(s32(value << unused) >> unused);
    set_scalar(w, i.scalar_destination + k, value);
    if (i.scalar_destination + k < 128) w.from_scalars[i.scalar_destination + k] = operation;
  }
}

}  // namespace
