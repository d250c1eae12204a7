// Local memory of a workgroup (LDS), with races between its waves, and exchanges of lanes through its hardware.
#include "atomics.h"

namespace {

// The address of an access, of 32 bits: a register may be below zero, and the offset leads back into the memory.
static u64 address_of(u32 address, const Record& i, u32 place) {
  return address + (place ? i.target : static_cast<u32>(i.immediate)) * i.parameter[kFactor];
}

// parameter[kSpace] is the number of places that one instruction reads or writes: one or two.
static void read_lane(Wave& w, const Record& i, u32 lane, u32 address, u32 place, Known* good) {
  const u32 bytes = access_bytes(i), first = i.destination + place * i.parameter[kCount];
  const u64 at = address_of(address, i, place);
  const char* from = lds_place(w, i, at, bytes);
  if (from) note_read(w, i, lane, at, bytes, good + place * i.parameter[kCount]);
  for (u32 k = 0; k < i.parameter[kCount]; k++) {
    u32 value = 0;
    if (from) memcpy(&value, from + 4 * k, i.parameter[kBytes]);
    if (i.parameter[kBytes] == 4) w.vector[first + k][lane] = value;
    else put_small(i, value, &w.vector[first + k][lane]);
  }
}

HANDLER(lds_read) {
  look_at_left_out(w);
  check_data(w, i, i.source[0].number, 1);
  const u64 operation = w.lds.issue();
  const u32 count = i.parameter[kCount] * i.parameter[kSpace];
  Lanes address;  // it may be in a register that is written
  memcpy(address.value, w.vector[i.source[0].number], sizeof address.value);
  Known good[8];
  for (u32 k = 0; k < count; k++) {
    fill(w, i, i.destination + k, w.from_lds, operation, w.from_memory, w.memory);
    good[k] = ~0ull;
  }
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    for (u32 place = 0; place < i.parameter[kSpace]; place++) {
      read_lane(w, i, lane, address.value[lane], place, good);
    }
  }
  for (u32 k = 0; k < count; k++) define(w, i, i.destination + k, w.exec, good[k]);
}

struct Place {
  u32 lane, byte;
};

// Where a byte of a transposed load comes from. On gfx950 the lanes of a row read lines of 16 numbers, 8 bytes a lane, and
// each lane gets a column; a number has `how` bytes. On gfx1250 8 lanes read 8 numbers of 16 bits each, or 16 lanes in two
// blocks of 8 bytes.
static Place transposed_from(u32 how, u32 lane, u32 byte) {
  if (how == 18) return {(lane & ~7u) + byte / 2, lane % 8 * 2 + byte % 2};
  if (how == 10) return {(lane & ~15u) + byte / 4 * 8 + lane / 8 % 2 * 4 + byte % 4, lane % 8};
  const u32 line = byte / how, place = lane % 16 * how + byte % how;
  return {(lane & ~15u) + 2 * how * line + place / 8, place % 8};
}

HANDLER(lds_read_transposed) {
  lds_read(w, i);
  const u32 count = i.parameter[kCount];
  Lanes read[4];
  Known known[4], made[4];
  for (u32 k = 0; k < count; k++) {
    memcpy(read[k].value, w.vector[i.destination + k], sizeof read[k].value);
    known[k] = w.defined[i.destination + k], made[k] = ~0ull;
  }
  for (u32 lane = 0; lane < w.lanes; lane++) {
    u32 column[4] = {};
    for (u32 byte = 0; byte < 4 * count; byte++) {
      const auto [from, at] = transposed_from(i.target, lane, byte);
      column[byte / 4] |= (read[at / 4].value[from] >> 8 * (at % 4) & 255) << 8 * (byte % 4);
      if (!(known[at / 4].half[at / 2 % 2] >> from & 1)) made[byte / 4].half[byte / 2 % 2] &= ~(1ull << lane);
    }
    for (u32 k = 0; k < count && w.exec >> lane & 1; k++) w.vector[i.destination + k][lane] = column[k];
  }
  for (u32 k = 0; k < count; k++) define(w, i, i.destination + k, w.exec, made[k]);
}

static void write_lane(Wave& w, const Record& i, u32 lane, u32 place, std::vector<Touched>& touched) {
  const u32 bytes = access_bytes(i), first = i.source[2 + place].number;
  const u64 at = address_of(w.vector[i.source[0].number][lane], i, place);
  u32 value[4];
  for (u32 k = 0; k < i.parameter[kCount]; k++) value[k] = w.vector[first + k][lane];
  if (i.parameter[kPart] == 2) value[0] >>= 16;
  char* to = lds_place(w, i, at, bytes);
  if (!to) return;
  touch(w, i, lane, first, at, bytes, touched);
  memcpy(to, value, bytes);
}

HANDLER(lds_write) {
  static thread_local std::vector<Touched> touched;
  look_at_left_out(w);
  check_data(w, i, i.source[0].number, 1);
  w.last_lds_write = w.lds.issue();
  w.group->writes++;
  touched.clear();
  for (u32 place = 0; place < i.parameter[kSpace]; place++) {
    for (u32 k = 0; k < i.parameter[kCount]; k++) await_vector(w, i, i.source[2 + place].number + k, halves_of(i, false));
  }
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    for (u32 place = 0; place < i.parameter[kSpace]; place++) write_lane(w, i, lane, place, touched);
  }
  check_writes(w, i, touched);
}

// target: what to do with the old value; clamp: it comes back; parameter[kSign]: how many values come, the new one first.
HANDLER(lds_atomic) {
  const u32 first = i.source[2].number, other = i.source[3].number, count = i.parameter[kCount];
  const bool returns = i.clamp, has_two = i.parameter[kSign] == 2;
  look_at_left_out(w);
  check_data(w, i, i.source[0].number, 1);
  check_data(w, i, first, count);
  if (has_two) check_data(w, i, other, count);
  const u64 operation = w.last_lds_write = w.lds.issue();
  Known good[2] = {~0ull, ~0ull};
  for (u32 k = 0; returns && k < count; k++) fill(w, i, i.destination + k, w.from_lds, operation, w.from_memory, w.memory);
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    const u64 at = address_of(w.vector[i.source[0].number][lane], i, 0);
    char* place = lds_place(w, i, at, 4 * count);
    if (!place) continue;
    u64 old = 0;
    memcpy(&old, place, 4 * count);
    const u64 wanted = has_two ? data_of(w, other, count, lane) : 0;
    const u64 value = combined_by(i.target, old, data_of(w, first, count, lane), wanted, count == 2);
    note_atomic(w, i, lane, at, 4 * count, good);
    memcpy(place, &value, 4 * count);
    for (u32 k = 0; returns && k < count; k++) w.vector[i.destination + k][lane] = static_cast<u32>(old >> 32 * k);
  }
  for (u32 k = 0; returns && k < count; k++) define(w, i, i.destination + k, w.exec, good[k]);
}

// Give every lane the value of the lane that `from` names; -1 for none, which gives zero.
template <class From>
static void exchange(Wave& w, const Record& i, u32 number, From from) {
  Lanes result = {};
  Known defined = ~0ull;
  await_vector(w, i, number);
  const u64 operation = w.lds.issue();
  w.mask = w.exec;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const u32 source = from(lane);
    const bool is_there = w.exec >> source & 1;
    result.value[lane] = is_there ? w.vector[number][source] : 0;
    if (is_there) defined.take(lane, w.defined[number], source);
  }
  await_vector(w, i, i.destination);
  put(w, i.destination, result.value, defined);
  w.overwritten = 0;  // the LDS answers when a store has long read its data
  w.from_lds[i.destination].set(operation);
}

HANDLER(ds_bpermute_b32) {
  const u32 address = i.source[0].number;
  check_data(w, i, address, 1);
  exchange(w, i, i.source[2].number, [&](u32 lane) {
    return (w.vector[address][lane] + static_cast<u32>(i.immediate)) / 4 % w.lanes;
  });
}

HANDLER(ds_permute_b32) {
  const u32 address = i.source[0].number;
  check_data(w, i, address, 1);
  u32 source[kLanes] = {};
  u64 is_named = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const u32 to = (w.vector[address][lane] + static_cast<u32>(i.immediate)) / 4 % w.lanes;
    if (w.exec >> lane & 1) source[to] = lane, is_named |= 1ull << to;
  }
  const u64 exec = w.exec;
  exchange(w, i, i.source[2].number, [&](u32 lane) { return source[lane]; });
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if ((exec & ~is_named) >> lane & 1) w.vector[i.destination][lane] = 0;
  }
}

HANDLER(ds_swizzle_b32) {
  const u32 pattern = static_cast<u32>(i.immediate) | i.target << 8;
  exchange(w, i, i.source[0].number, [&](u32 lane) {
    if (pattern >> 15) return (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
    const u32 kept = (lane & 31 & pattern) | (pattern >> 5 & 31);
    return (lane & 32) | ((kept ^ (pattern >> 10 & 31)) & 31);
  });
}

}  // namespace
