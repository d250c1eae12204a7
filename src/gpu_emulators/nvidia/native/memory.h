// Memory: from an address in a register to a place on this machine, with what is known of each byte of it.
#pragma once

#include <algorithm>

#include "state.h"

enum Space : u32 { kGeneric, kGlobal, kShared, kLocal, kParam };
enum AccessParameter { kSpace, kOffset, kBytes, kSigned, kOrdered };  // kOrdered: an atomic, or .acquire, .release, .volatile

static inline Mark mark_of(const Wave& w) {
  return {w.group->id, static_cast<u16>(w.number), static_cast<u16>(w.group->interval)};
}

static inline u64 packed(const Mark& other, bool was_read) {
  return static_cast<u64>(other.group) << 32 | static_cast<u64>(other.wave) << 1 | was_read;
}

static inline u32 space_of(u64 address, u32 space) {
  if (space != kGeneric) return space;
  const u64 window = address >> 60;
  return window == 1 ? kShared : window == 2 ? kLocal : kGlobal;
}

static inline u64 inside(u64 address, u32 space) {
  return space == kShared || space == kLocal ? address & 0xffffffff : address;
}

static inline const Region* region_of(const Group& g, u64 address, u32 size) {
  for (u32 k = 0; k < g.region_count; k++) {
    const Region& region = g.regions[k];
    if (address >= region.base && size <= region.size && address - region.base <= region.size - size) return &region;
  }
  return nullptr;
}

// Another agent's access that nothing orders before this one: a race, or a wait that is missing.
static inline void report_meeting(Wave& w, const Record& i, u64 at, u32 agent, bool was_read) {
  const Group& g = *w.group;
  const u32 kind = agent / g.waves, wave = kind == 4 ? 0xffff : agent % g.waves;
  report(w, i, kind == 0 ? kRace : kNoWait, at, static_cast<u64>(kind) << 32 | static_cast<u64>(was_read) << 16 | wave);
}

static inline void shared_read(Wave& w, const Record& i, u64 at, u32 agent, u32 clock) {
  Group& g = *w.group;
  const Byte& byte = g.bytes[at];
  if (byte.written > w.clocks[byte.writer] && byte.writer != agent) report_meeting(w, i, at, byte.writer, false);
  g.reads[at * g.agents + agent] = clock;
}

// `same` says that the byte stays as it was: then nobody can tell that it was written.
static inline void shared_write(Wave& w, const Record& i, u64 at, u32 agent, u32 clock, bool same) {
  Group& g = *w.group;
  Byte& byte = g.bytes[at];
  if (same && byte.writer != agent && byte.written) return;
  if (!same) {
    if (byte.written > w.clocks[byte.writer] && byte.writer != agent) report_meeting(w, i, at, byte.writer, false);
    const u32* reads = &g.reads[at * g.agents];
    for (u32 k = 0; k < g.agents; k++) {
      if (reads[k] > w.clocks[k] && k != w.number) report_meeting(w, i, at, k, true);
    }
  }
  byte.writer = agent, byte.written = clock;
}

static inline char* shared_place(Wave& w, const Record& i, u64 at, u32 size) {
  Group& g = *w.group;
  if (at + size <= g.shared.size()) return g.shared.data() + at;
  report(w, i, kSharedOutside, at, size);
  return nullptr;
}

// The place of global memory; null where it is in no tensor, which is a fault.
static inline char* global_place(Wave& w, const Record& i, u64 address, u32 size, bool is_write) {
  const Region* region = region_of(*w.group, address, size);
  if (!region) return report(w, i, is_write ? kWriteOutside : kReadOutside, address, size), nullptr;
  if (is_write && !region->writable) return report(w, i, kWriteProtected, address, size), nullptr;
  return region->memory + (address - region->base);
}

static inline char* local_place(Wave& w, const Record& i, u32 lane, u64 at, u32 size, bool is_write) {
  if (at + size <= w.local_bytes) return w.local.data() + static_cast<size_t>(lane) * w.local_bytes + at;
  report(w, i, is_write ? kWriteOutside : kReadOutside, kLocalWindow + at, size);
  return nullptr;
}

// Where a read races, the lane's value is taken as undefined: lanes that repeat others' work read what nobody uses.
static inline bool global_read(Wave& w, const Record& i, const char* place, u64 address, u32 size) {
  const Region* region = region_of(*w.group, address, size);
  if (!region || !region->writable) return true;
  const Mark* other = w.group->history->read(place, size, mark_of(w));
  if (!other) return true;
  w.raced = static_cast<u64>(&i - w.group->code) + 1, w.raced_address = address, w.raced_with = packed(*other, false);
  return false;
}

static inline void global_write(Wave& w, const Record& i, const char* to, u64 address, const void* value, u32 size, bool ordered) {
  bool was_read = false;
  History& history = *w.group->history;
  const Mark* other = ordered ? history.exchange(to, size, mark_of(w)) : history.store(to, value, size, mark_of(w), &was_read);
  if (other) report(w, i, kRaceInMemory, address, packed(*other, was_read));
}

static inline bool is_aligned(Wave& w, const Record& i, u64 address, u64 size) {
  if (address % size == 0) return true;
  report(w, i, kMisaligned, address, size);
  return false;
}

static inline u64 address_of(Wave& w, const Record& i, u32 lane, u32 k = 0) {
  const u64 value = w.lanes(origin(w, i, k))[lane];
  const u64 offset = static_cast<u64>(i.parameter[kOffset]);
  const bool is_short = i.parameter[kSpace] == kShared || i.parameter[kSpace] == kLocal;
  return is_short ? static_cast<u32>(value + offset) : value + offset;
}
