// Scalar operands: reading and writing SGPRs, and what stands for one.
#pragma once

#include "state.h"

static inline u32 get_scalar(const Wave& w, u32 number) {
  if (number == kExec) return static_cast<u32>(w.exec);
  if (number == kExec + 1) return static_cast<u32>(w.exec >> 32);
  return w.scalar[number];
}

static inline void set_scalar(Wave& w, u32 number, u32 value) {
  if (number == kExec) {
    w.exec = (w.exec & ~0xffffffffull) | value;
  } else if (number == kExec + 1) {
    if (w.lanes == 64) w.exec = (w.exec & 0xffffffff) | static_cast<u64>(value) << 32;
  } else if (!(w.family != kCdna && number == kNull)) {
    w.scalar[number] = value;
    w.from_scalars[number] = 0;
  }
}

static inline void await_scalar(Wave& w, const Record& i, u32 number) {
  const Counter& counter = w.family == kRdna4 ? w.scalars : w.lds;
  if (number < 128 && w.from_scalars[number] > counter.done) {
    report(w, i, kNoWait, kScalars + number);
    w.from_scalars[number] = 0;
  }
}

static inline u64 vcc(const Wave& w) {
  return w.scalar[kVcc] | (w.lanes == 64 ? static_cast<u64>(w.scalar[kVcc + 1]) << 32 : 0);
}

static inline u32 special(const Wave& w, u32 number) {
  return number == kScc ? w.scc : number == kExecz ? w.exec == 0 : vcc(w) == 0;
}

static inline u32 source32(Wave& w, const Record& i, int place) {
  const Operand& operand = i.source[place];
  if (operand.kind == kConstant) return static_cast<u32>(operand.value);
  if (operand.kind == kSpecial) return special(w, operand.number);
  await_scalar(w, i, operand.number);
  return get_scalar(w, operand.number);
}

static inline u64 source64(Wave& w, const Record& i, int place) {
  const Operand& operand = i.source[place];
  if (operand.kind != kScalar) return operand.kind == kConstant ? operand.value : special(w, operand.number);
  await_scalar(w, i, operand.number);
  await_scalar(w, i, operand.number + 1);
  return get_scalar(w, operand.number) | static_cast<u64>(get_scalar(w, operand.number + 1)) << 32;
}

static inline void result32(Wave& w, const Record& i, u32 value) { set_scalar(w, i.scalar_destination, value); }

static inline void result64(Wave& w, const Record& i, u64 value) {
  set_scalar(w, i.scalar_destination, static_cast<u32>(value));
  if (w.family != kCdna && i.scalar_destination == kNull) return;
  set_scalar(w, i.scalar_destination + 1, static_cast<u32>(value >> 32));
}

// A mask of lanes: one register in waves of 32, two in waves of 64.
static inline void set_lane_mask(Wave& w, u32 number, u64 mask) {
  set_scalar(w, number, static_cast<u32>(mask));
  if (w.lanes == 64) set_scalar(w, number + 1, static_cast<u32>(mask >> 32));
}

static inline u64 source_mask(Wave& w, const Record& i, int place) {
  return w.lanes == 64 ? source64(w, i, place) : source32(w, i, place);
}
