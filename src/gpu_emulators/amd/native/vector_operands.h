// Vector operands: the lanes that an instruction reads, with DPP, SDWA and modifiers, and those that it writes.
#pragma once

#include "scalar_operands.h"

struct Lanes {
  alignas(64) u32 value[kLanes];
};

// What an instruction reads of one operand: its lanes, and which of them hold something defined.
struct Read {
  const u32* value;
  Known defined;
};

enum Modifiers { kNone, kFloat, kHalf };  // how an operand may be negated, and which part of it is read

static inline void await_vector(Wave& w, const Record& i, u32 number, u32 halves = 3) {
  if (!w.from_memory[number].is_open(w.memory, halves) && !w.from_lds[number].is_open(w.lds, halves)) return;
  report(w, i, kNoWait, number);
  w.from_memory[number].set(0, halves), w.from_lds[number].set(0, halves);
}

// The lane that a control of DPP reads, -1 for none; -2 for a control that is not known.
static inline int dpp_lane(u32 control, int lane) {
  const int row = lane & ~15, place = lane & 15, count = static_cast<int>(control & 15);
  if (control < 0x100) return (lane & ~3) | (control >> 2 * (lane & 3) & 3);
  if (control > 0x100 && control < 0x110) return place + count < 16 ? lane + count : -1;
  if (control > 0x110 && control < 0x120) return place - count >= 0 ? lane - count : -1;
  if (control > 0x120 && control < 0x130) return row | ((place - count) & 15);
  if (control == 0x130) return lane < 63 ? lane + 1 : -1;
  if (control == 0x134) return (lane + 1) & 63;
  if (control == 0x138) return lane - 1;
  if (control == 0x13c) return (lane - 1) & 63;
  if (control == 0x140) return row | (15 - place);
  if (control == 0x141) return (lane & ~7) | (7 - (lane & 7));
  if (control == 0x142) return row ? row - 1 : -1;
  if (control == 0x143) return lane >= 32 ? 31 : -1;
  if (control >= 0x150 && control < 0x160) return row | count;
  if (control >= 0x160 && control < 0x170) return row | (place ^ count);
  return -2;
}

// Move lanes as DPP says. Lanes that read none, and rows that are masked out, are not written.
static inline Known moved_by_dpp(Wave& w, const Record& i, const u32* from, const Known& defined, u32* to) {
  Known known = ~0ull;
  for (u32 lane = 0; lane < kLanes; lane++) to[lane] = 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    const int source = dpp_lane(i.dpp, static_cast<int>(lane));
    if (source < -1) report(w, i, kUnknown, i.dpp);
    const bool chosen = (i.row_mask >> (lane >> 4 & 3) & 1) && (i.bank_mask >> (lane >> 2 & 3) & 1);
    const bool valid = source >= 0 && source < static_cast<int>(w.lanes) && ((w.exec >> source & 1) || i.fetch_inactive);
    if (valid) to[lane] = from[source], known.take(lane, defined, static_cast<u32>(source));
    if (!chosen || (!valid && !i.bound_control)) w.mask &= ~(1ull << lane);
  }
  return known;
}

// The part of a register that SDWA names; with 8 its sign is kept.
static inline u32 selected(u32 value, u32 how) {
  const u32 part = how & 7;
  if (part > 5) return value;
  const u32 bits = part < 4 ? 8 : 16, found = value >> (part < 4 ? 8 * part : 16 * (part - 4)) & ((1u << bits) - 1);
  return how & 8 && found >> (bits - 1) ? found | ~0u << bits : found;
}

static inline Read plain(Wave& w, const Record& i, int place, u32* room, u32 part, u32 halves) {
  const Operand& operand = i.source[place];
  if (operand.kind == kVector) {
    const u32 number = operand.number + part;
    await_vector(w, i, number, halves);
    if (place != 0 || !i.is_dpp) return {w.vector[number], w.defined[number]};
    const Known defined = moved_by_dpp(w, i, w.vector[number], w.defined[number], room);
    return {room, defined};
  }
  u32 value;
  if (operand.kind == kConstant) {
    value = static_cast<u32>(part ? operand.value >> 32 : operand.value);
  } else if (operand.kind == kSpecial) {
    value = part ? 0 : special(w, operand.number);
  } else {
    await_scalar(w, i, operand.number + part);
    value = get_scalar(w, operand.number + part);
  }
  for (u32 lane = 0; lane < kLanes; lane++) room[lane] = value;
  return {room, ~0ull};
}

template <class Change>
static inline void change(Read& read, u32* room, Change how) {
  for (u32 lane = 0; lane < kLanes; lane++) room[lane] = how(read.value[lane]);
  read.value = room;
}

// Read an operand of 32 bits; of a wide one the register `part`.
template <Modifiers M>
static inline Read source(Wave& w, const Record& i, int place, u32* room, u32 part = 0) {
  const bool selects = i.is_sdwa && place < 2 && i.select[place] != 6, high = i.half >> place & 1;
  Read read = plain(w, i, place, room, part, M == kHalf && !i.is_sdwa ? 1 << high : 3);
  if (selects) {
    const u32 how = i.select[place] & 7;
    read.defined = read.defined.half[how < 4 ? how / 2 : how - 4];
    change(read, room, [&](u32 value) { return selected(value, i.select[place]); });
  }
  if (M == kHalf) read.defined = read.defined.half[high];
  if (M == kHalf && (i.half >> place & 1)) change(read, room, [](u32 value) { return value >> 16; });
  if (M == kNone) return read;
  if (M == kFloat && i.precision != kExact && !keeps_sources(w.mode)) {
    change(read, room, [](u32 value) { return value & 0x7f800000 ? value : value & 0x80000000; });
  }
  const u32 sign = M == kFloat ? 0x80000000u : 0x8000u;
  if (i.absolute >> place & 1) change(read, room, [=](u32 value) { return value & ~sign; });
  if (i.negate >> place & 1) change(read, room, [=](u32 value) { return value ^ sign; });
  return read;
}

// Write the lanes of a register that the mask leaves.
static inline void put(Wave& w, u32 number, const u32* result, const Known& defined) {
  u32* to = w.vector[number];
  const u64 mask = w.mask;
  w.defined[number] = chosen(mask, defined, w.defined[number]);
  if (number - w.stored < w.stored_count) w.overwritten = number + 1;
  if (mask == ~0ull) {
    memcpy(to, result, sizeof(u32) * kLanes);
    return;
  }
  for (u32 lane = 0; lane < kLanes; lane++) to[lane] = mask >> lane & 1 ? result[lane] : to[lane];
}

static inline Known place_in_part(Wave& w, const Record& i, u32* result, Known defined) {
  const u32 how = i.select[2], shift = how < 4 ? 8 * how : how == 5 ? 16 : 0, part = how < 4 ? 255 : 65535;
  for (u32 lane = 0; lane < kLanes; lane++) {
    const u32 value = result[lane] & part;
    const u32 kept = i.unused == 2 ? w.vector[i.destination][lane] & ~(part << shift) : 0;
    result[lane] = kept | value << shift;
    if (i.unused == 1 && (value & (part + 1) / 2)) result[lane] |= ~((part << shift) | ((1u << shift) - 1));
  }
  const Known& old = w.defined[i.destination];
  if (i.unused == 2) {
    const u32 high = shift / 16;
    defined.half[high] &= how < 4 ? old.half[high] : ~0ull;
    defined.half[!high] = old.half[!high];
  }
  return defined;
}

// Write a result of 32 bits, into a part of the register where SDWA says so.
static inline void put_result(Wave& w, const Record& i, u32* result, Known defined, u32 halves = 3) {
  await_vector(w, i, i.destination, halves);
  if (i.is_sdwa && i.select[2] != 6) defined = place_in_part(w, i, result, defined);
  put(w, i.destination, result, defined);
}

static inline float modified(float value, const Record& i) {
  if (i.scale) value *= i.scale == 1 ? 2.0f : i.scale == 2 ? 4.0f : 0.5f;
  if (i.clamp) value = value > 1 ? 1.0f : value > 0 ? value : 0.0f;  // NaN too becomes zero
  return value;
}
