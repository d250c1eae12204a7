// Global memory, buffers and private memory: from an address in a register to a place on this machine.
#pragma once

#include <algorithm>

#include "lds.h"
#include "races.h"

enum Space : u32 { kGlobal, kBuffer, kScratch, kFlat, kLongBuffer };  // the last has a descriptor of gfx1250
// Addresses that a flat access takes to the LDS or to private memory, by their upper halves: operands.py has the same. On
// gfx1250 one of private memory names the lane too.
constexpr u64 kToLds = 0x10000, kToPrivate = 0x20000, kToLanes = 1ull << 58, kLaneBit = 52;
// What only a host can answer is at addresses of its own: a page for each kind, in launch.py.
constexpr u64 kHost = 1ull << 60, kHostBytes = 1 << 16;

static inline bool is_buffer(const Record& i) { return i.parameter[kSpace] == kBuffer || i.parameter[kSpace] == kLongBuffer; }

static inline u32 access_bytes(const Record& i) {
  const u32 bytes = i.parameter[kBytes];
  return bytes == 4 ? 4 * i.parameter[kCount] : bytes;
}

static inline Mark mark_of(const Wave& w) {
  return {w.group->id, static_cast<u16>(w.number), static_cast<u16>(w.group->interval)};
}

static inline u64 packed(const Mark& other, bool was_read) {
  return static_cast<u64>(other.group) << 32 | static_cast<u64>(other.wave) << 1 | was_read;
}

static inline bool is_private(const Wave& w, const char* at) {
  return at >= w.scratch && at < w.scratch + static_cast<u64>(w.scratch_size) * kLanes;
}

// The address at which a kernel sees a place of this machine.
static inline u64 address_at(const Group& g, const char* at) {
  for (u32 k = 0; k < g.region_count; k++) {
    const Region& region = g.regions[k];
    if (at >= region.memory && at < region.memory + region.size) return region.base + static_cast<u64>(at - region.memory);
  }
  return 0;
}

// Keep a write to memory that other waves see, before it is done.
static inline void note_write(Wave& w, const Record& i, const char* to, const void* value, u32 size, bool is_atomic) {
  if (is_private(w, to)) return;
  bool was_read = false;
  History& history = *w.group->history;
  const Mark* other = is_atomic ? history.exchange(to, size, mark_of(w))
                                : history.store(to, value, size, mark_of(w), &was_read);
  if (other) report(w, i, kRaceInMemory, address_at(*w.group, to), packed(*other, was_read));
}

// Where a read races, `raced` is set: lanes that repeat the work of others read what nobody uses.
static inline char* global_place(Wave& w, const Record& i, u64 address, u32 size, bool is_write, bool* raced = nullptr) {
  const Group& g = *w.group;
  for (u32 k = 0; k < g.region_count; k++) {
    const Region& region = g.regions[k];
    if (address < region.base || size > region.size || address - region.base > region.size - size) continue;
    if (is_write && !region.writable) {
      report(w, i, kWriteProtected, address, size);
      return nullptr;
    }
    char* place = region.memory + (address - region.base);
    if (!is_write && region.writable) {
      if (const Mark* other = w.group->history->read(place, size, mark_of(w))) {
        w.raced = static_cast<u64>(&i - w.group->code) + 1, w.raced_address = address;
        w.raced_with = packed(*other, false);
        if (raced) *raced = true;
        else report(w, i, kRaceInMemory, address, w.raced_with);
      }
    }
    return place;
  }
  if (address - kHost < kHostBytes) {
    report(w, i, kAsksHost, address);
    w.done = true;
    return nullptr;
  }
  report(w, i, is_write ? kWriteOutside : kReadOutside, address, size);
  return nullptr;
}

static inline char* scratch_place(Wave& w, const Record& i, u32 lane, u64 offset, u32 size, bool is_write) {
  if (offset > w.scratch_size || offset + size > w.scratch_size) {
    report(w, i, is_write ? kWriteOutside : kReadOutside, offset, size);
    return nullptr;
  }
  return w.scratch + static_cast<u64>(lane) * w.scratch_size + offset;
}

// The place that an address without a space of its own means: in the LDS, in private memory, or in global memory.
static inline char* flat_place(Wave& w, const Record& i, u32 lane, u64 address, u32 size, bool is_write, bool* raced) {
  const u64 high = address >> 32;
  if (high == kToLds) return lds_place(w, i, address & 0xffffffff, size);
  if (w.registers == kVectorRegisters) {
    const u64 offset = address & ((1ull << kLaneBit) - 1);
    if (address >> 57 << 57 == kToLanes) return scratch_place(w, i, address >> kLaneBit & 31, offset, size, is_write);
  } else if (high == kToPrivate) {
    return scratch_place(w, i, lane, address & 0xffffffff, size, is_write);
  }
  return global_place(w, i, address, size, is_write, raced);
}

// The address of a lane in a buffer; false where the descriptor says that it is outside of the buffer.
static inline bool buffer_address(Wave& w, const Record& i, u32 lane, u64* address) {
  const u32 first = i.source[1].number, address_register = i.source[0].number;
  const u32 word[4] = {get_scalar(w, first), get_scalar(w, first + 1), get_scalar(w, first + 2), get_scalar(w, first + 3)};
  const bool is_long = i.parameter[kSpace] == kLongBuffer;  // an address of 57 bits, and 45 bits of records
  const u64 base = word[0] | static_cast<u64>(word[1] & (is_long ? 0x1ffffff : 0xffff)) << 32;
  const u32 stride = is_long ? word[3] >> 12 & 0xffff : word[1] >> 16 & 0x3fff;
  const u64 records = is_long ? static_cast<u64>(word[3] & 63) << 39 | static_cast<u64>(word[2]) << 7 | word[1] >> 25 : word[2];
  const bool has_index = i.half_high, has_offset = i.half;
  const u32 index = has_index ? w.vector[address_register][lane] : 0;
  const u32 in_lane = has_offset ? w.vector[address_register + has_index][lane] : 0;
  const u32 offset = in_lane + static_cast<u32>(i.immediate);
  const u64 scalar = source32(w, i, 2);
  if (stride == 0 ? static_cast<u64>(offset) + scalar + access_bytes(i) > records : index >= records) return false;
  *address = base + scalar + offset + static_cast<u64>(index) * stride;
  return true;
}

static inline char* buffer_place(Wave& w, const Record& i, u32 lane, u32 size, bool is_write, bool* raced) {
  const bool adds_lane = i.parameter[kSpace] == kBuffer && get_scalar(w, i.source[1].number + 3) >> 23 & 1;
  if (adds_lane) {  // the private memory of gfx90a and gfx1030
    const u32 in_lane = i.half ? w.vector[i.source[0].number][lane] : 0;
    return scratch_place(w, i, lane, in_lane + i.immediate + source32(w, i, 2) / w.lanes, size, is_write);
  }
  u64 address;
  return buffer_address(w, i, lane, &address) ? global_place(w, i, address, size, is_write, raced) : nullptr;
}

// The place that a lane's access means; null where it is outside, which is reported where it is a fault.
static inline char* place_of(Wave& w, const Record& i, u32 lane, u32 size, bool is_write, bool* raced = nullptr) {
  const u32 space = i.parameter[kSpace];
  if (is_buffer(i)) return buffer_place(w, i, lane, size, is_write, raced);
  u64 address = static_cast<i64>(i.immediate);
  const auto offset = [&](u32 value) {  // RDNA 4 adds offsets of private memory with their sign
    return space == kScratch && w.family == kRdna4 ? static_cast<u64>(s32(value)) : value;
  };
  if (i.source[1].kind == kScalar) address += space == kScratch ? offset(source32(w, i, 1)) : source64(w, i, 1);
  if (i.source[0].kind == kVector) {
    address += offset(w.vector[i.source[0].number][lane]) * std::max(1u, i.parameter[kFactor]);
    if (i.half) address += static_cast<u64>(w.vector[i.source[0].number + 1][lane]) << 32;
  }
  if (space == kFlat) return flat_place(w, i, lane, address, size, is_write, raced);
  return space == kScratch ? scratch_place(w, i, lane, address, size, is_write)
                           : global_place(w, i, address, size, is_write, raced);
}

// The halves of a register that an access reads or writes; a load of less than a register clears the rest.
static inline u32 halves_of(const Record& i, bool is_load) {
  if (i.parameter[kPart] != 0) return i.parameter[kPart];
  return is_load || i.parameter[kBytes] == 4 ? 3 : 1;
}

// Begin to fill a register. Loads of one kind fill it in their order, so only one of the other kind may still be on its way.
// But a load of a half keeps the other half, and on CDNA reads it for that.
static inline void fill(Wave& w, const Record& i, u32 number, Filling* by, u64 operation, Filling* other,
                        const Counter& others) {
  const u32 halves = halves_of(i, true);
  if (halves != 3 && w.family == kCdna) {
    await_vector(w, i, number);
    return by[number].set(operation);
  }
  if (other[number].is_open(others, halves)) report(w, i, kNoWait, number);
  other[number].set(0, halves), by[number].set(operation, halves);
}

static inline void define(Wave& w, const Record& i, u32 number, u64 lanes, const Known& good) {
  for (u32 half = 0; half < 2; half++) {
    u64& known = w.defined[number].half[half];
    if (halves_of(i, true) >> half & 1) known = (known & ~lanes) | (good.half[half] & lanes);
  }
}

// Which lanes have all that a store takes of a register.
static inline u64 stored_of(const Wave& w, const Record& i, u32 number) {
  const u32 halves = halves_of(i, false);
  return halves == 3 ? static_cast<u64>(w.defined[number]) : w.defined[number].half[halves == 2];
}

static inline void check_address(Wave& w, const Record& i) {
  look_at_left_out(w);
  if (i.source[0].kind == kVector) {
    const u32 wide = is_buffer(i) ? i.half & i.half_high : i.half;
    for (u32 k = 0; k <= wide; k++) {
      await_vector(w, i, i.source[0].number + k);
      if (w.exec & ~w.defined[i.source[0].number + k]) report(w, i, kUndefined, i.source[0].number + k, 0);
    }
  }
  const u32 of_address = is_buffer(i) ? 4 : i.parameter[kSpace] == kScratch ? 1 : 2;
  const u32 scalars = i.source[1].kind == kScalar ? of_address : 0;
  for (u32 k = 0; k < scalars; k++) await_scalar(w, i, i.source[1].number + k);
}

static inline void check_data(Wave& w, const Record& i, u32 first, u32 count) {
  for (u32 k = 0; k < count; k++) {
    await_vector(w, i, first + k);
    if (w.exec & ~w.defined[first + k]) report(w, i, kUndefined, first + k, 1);
  }
}

// A number of one or two bytes, with its sign, into the part of a register that the instruction names.
static inline void put_small(const Record& i, u32 value, u32* to) {
  if (i.parameter[kSign]) {
    value = static_cast<u32>(i.parameter[kBytes] == 1 ? static_cast<i32>(static_cast<int8_t>(value))
                                                      : static_cast<i32>(static_cast<i16>(value)));
  }
  const u32 part = i.parameter[kPart];
  *to = part == 1 ? (*to & 0xffff0000) | (value & 0xffff) : part == 2 ? (*to & 0xffff) | value << 16 : value;
}
