// The LDS of a workgroup, byte by byte: what is known of it, and races between its waves. DS and flat accesses meet here.
#pragma once

#include "vector_operands.h"

// How a record of an access to memory or the LDS uses its parameters.
enum AccessParameter { kBytes, kCount, kSign, kPart, kSpace, kFactor };

// What some atomics do, by their place in translate_memory.py.
enum Combination : u32 { kExchange = 1, kIncrement = 16, kDecrement, kReverse, kExchangeFloat };
constexpr u32 kExchangeBits = 10;

// Whether an atomic exchanges what is as expected. A loop with one reads the old value first, by an ordinary load.
static inline bool compares(const Record& i) { return i.target == kExchangeBits || i.target == kExchangeFloat; }

// An atomic of another wave between the same barriers races with a load or a store.
static inline void check_atomics(Wave& w, const Record& i, u64 at, bool is_read = false) {
  const Byte& byte = w.group->bytes[at];
  if (is_read && byte.compared) return;
  if (byte.changed == w.group->interval && byte.changer != w.number) report(w, i, kRace, at, byte.changer);
}

// Two waves that meet at a byte between the same barriers race, unless neither changes it.
static inline void check_read(Wave& w, const Record& i, u64 at) {
  const Group& g = *w.group;
  Byte& byte = w.group->bytes[at];
  if (byte.written == g.interval && byte.writer != w.number) report(w, i, kRace, at, byte.writer);
  check_atomics(w, i, at, true);
  const bool another = byte.read == g.interval && byte.reader != w.number;
  byte.reader = another ? 0xffff : static_cast<u16>(w.number), byte.read = g.interval;
  byte.last_reader = static_cast<u16>(w.number), byte.last_read = w.lds.issued;
}

static inline void check_write(Wave& w, const Record& i, u64 at, bool same) {
  const Group& g = *w.group;
  Byte& byte = w.group->bytes[at];
  if (!same) check_atomics(w, i, at);
  if (byte.written == g.interval && byte.writer != w.number && !same) report(w, i, kRace, at, byte.writer);
  if (byte.read == g.interval && byte.reader != w.number && !same) report(w, i, kRace, at, 0x10000 + byte.reader);
  const bool is_over = byte.read != g.interval && byte.last_reader != w.number;
  if (is_over && !same && byte.last_read > g.awaited[byte.last_reader]) report(w, i, kNoWait, kInFlight, byte.last_reader);
  byte.writer = static_cast<u16>(w.number), byte.written = g.interval;
}

// The place of an access, or null where it is outside of the workgroup's memory.
static inline char* lds_place(Wave& w, const Record& i, u64 address, u32 size) {
  Group& g = *w.group;
  if (address + size <= g.lds.size()) return g.lds.data() + address;
  report(w, i, kLdsOutside, address, size);
  return nullptr;
}

static inline bool is_shared(const Wave& w, const char* at) {
  const std::vector<char>& lds = w.group->lds;
  return at >= lds.data() && at < lds.data() + lds.size();
}

static inline u64 in_lds(const Wave& w, const char* at) { return static_cast<u64>(at - w.group->lds.data()); }

// Note that a lane reads some bytes, and take the halves of registers from `good` whose bytes nobody wrote.
[[gnu::always_inline]]
static inline void note_read(Wave& w, const Record& i, u32 lane, u64 at, u32 bytes, Known* good) {
  const bool is_half = i.parameter[kBytes] == 4;
  for (u32 k = 0; k < bytes; k++) {
    check_read(w, i, at + k);
    if (w.group->bytes[at + k].defined) continue;
    Known& known = good[k / 4];
    known.half[is_half ? k / 2 % 2 : 0] &= ~(1ull << lane);
    if (!is_half) known.half[1] = known.half[0];
  }
}

// A byte that an instruction wrote, as it was before.
struct Touched {
  u64 at;
  char before;
};

// Note that a lane is about to write some bytes from the registers that begin with the first one.
[[gnu::always_inline]]
static inline void touch(Wave& w, const Record& i, u32 lane, u32 first, u64 at, u32 bytes, std::vector<Touched>& touched) {
  Group& g = *w.group;
  for (u32 k = 0; k < bytes; k++) {
    Byte& byte = g.bytes[at + k];
    if (byte.touched != g.writes) touched.push_back({at + k, g.lds[at + k]});
    const u32 high = i.parameter[kPart] == 2 || k & 2;
    byte.touched = g.writes, byte.defined = w.defined[first + k / 4].half[high] >> lane & 1;
  }
}

// Several lanes may write one byte. What counts for a race is what the whole instruction leaves there.
static inline void check_writes(Wave& w, const Record& i, const std::vector<Touched>& touched) {
  for (const Touched& one : touched) check_write(w, i, one.at, w.group->lds[one.at] == one.before);
}

// Atomics of several waves meet without a race; a load or a store of another wave between the same barriers is one, but for
// a load and an exchange of what is as expected.
static inline void note_atomic(Wave& w, const Record& i, u64 at) {
  const Group& g = *w.group;
  Byte& byte = w.group->bytes[at];
  if (byte.written == g.interval && byte.writer != w.number) report(w, i, kRace, at, byte.writer);
  const bool is_read = byte.read == g.interval && byte.reader != w.number && !compares(i);
  if (is_read) report(w, i, kRace, at, 0x10000 + byte.reader);
  byte.compared = compares(i) && (byte.changed != g.interval || byte.compared);
  const bool another = byte.changed == g.interval && byte.changer != w.number;
  byte.changer = another ? 0xffff : static_cast<u16>(w.number), byte.changed = g.interval;
}

static inline void note_atomic(Wave& w, const Record& i, u32 lane, u64 at, u32 bytes, Known* good) {
  for (u32 k = 0; k < bytes; k++) {
    note_atomic(w, i, at + k);
    Byte& byte = w.group->bytes[at + k];
    if (!byte.defined) good[k / 4].half[k / 2 % 2] &= ~(1ull << lane);
    byte.defined |= i.target == kExchange;
  }
}
