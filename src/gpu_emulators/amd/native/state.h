// The state of a launch: records of instructions, waves with their registers, workgroups with their LDS, findings.
#pragma once

#include <vector>

#include "handlers.h"

constexpr u32 kLanes = 64;
constexpr u32 kVectorRegisters = 1024;  // of gfx1250; CDNA has 512, 256 of them accumulators
constexpr u32 kEncoded = 256;  // registers that an encoding has numbers for
constexpr u32 kOverflowBit = 23;  // of MODE: what is too large for 16 or 8 bits becomes the largest number
constexpr u32 kVcc = 106, kNull = 124, kM0 = 125, kExec = 126, kVccz = 251, kExecz = 252, kScc = 253;

enum Family : u32 { kCdna, kRdna3, kRdna4 };
enum Precision : u32 { kExact, kSingle, kDouble };  // which bits of MODE an instruction obeys; kDouble: fp16 too
enum Kind : u32 { kVector, kScalar, kConstant, kSpecial };

// One operand. `value` is a constant; of 64 bits for a wide operand.
struct Operand {
  u32 kind, number;
  u64 value;
};

// One instruction, as Python's `records.py` lays it out.
struct Record {
  Handler* handler;
  Operand source[4];
  u32 destination, scalar_destination;
  u32 negate, absolute, half, half_high, negate_high;  // one bit for each source
  u32 scale, clamp;
  i32 immediate;
  u32 parameter[6];
  u32 target;
  u32 is_dpp, dpp, bound_control, row_mask, bank_mask, fetch_inactive;
  u32 is_sdwa, select[3], unused;  // select: of the two sources and of the destination; 6 is the whole register
  u32 precision;
};

enum FindingKind : u32 {
  kReadOutside = 1, kWriteOutside, kNoWait, kRace, kLdsOutside, kUndefined, kUnknown, kWriteProtected,
  kRaceInMemory, kOverwritten, kSamePlace, kLeftOut, kNoEnd, kTrap, kAsksHost
};

constexpr u32 kScalars = 2000;  // scalar registers, as findings have them
constexpr u32 kBarrier = 3000, kInFlight = 4000;  // of kNoWait, where no register is meant

struct Byte {  // what is known of one byte of LDS
  u16 writer, reader, last_reader, changer;
  u32 written, read, changed;  // the interval between barriers, from 1 on; 0 is never. An atomic has changed it
  u64 last_read;  // the number of the last reader's operation
  u64 touched;  // the last instruction that wrote it
  bool defined, compared;  // compared: atomics of this interval exchanged it where it was as expected, and did nothing else
};

class History;

struct Group {
  std::vector<char> lds;
  std::vector<Byte> bytes;
  u32 interval = 1;
  const Region* regions;
  u32 region_count;
  const Record* code;
  Findings* findings;
  u64 writes = 0;  // instructions that wrote to the LDS
  u64 executed = 0;  // instructions of all waves
  History* history = nullptr;
  u32 id = 0;  // from 1 on
  u64 text = 0, before = 0, words = 0;  // where the kernel begins, and the words of code before it and in all
  const u32* places = nullptr;  // the record at each word
  std::vector<u64> awaited = std::vector<u64>(1);  // the operations that each wave knew to be done at its last barrier
};

// Counters of operations whose result comes later: issued, and known to be done.
struct Counter {
  u64 issued, done;

  u64 issue() { return ++issued; }
  void wait(u64 left) {
    if (issued > left && issued - left > done) done = issued - left;
  }
};

// The lanes that hold what was written, for each half of a register. As a number: the lanes whose two halves do.
struct Known {
  u64 half[2];

  Known(u64 lanes = 0) : half{lanes, lanes} {}
  Known(u64 low, u64 high) : half{low, high} {}
  operator u64() const { return half[0] & half[1]; }

  void take(u32 lane, const Known& from, u32 source) {
    for (int k = 0; k < 2; k++) half[k] = (half[k] & ~(1ull << lane)) | (from.half[k] >> source & 1) << lane;
  }
};

static inline Known chosen(u64 lanes, const Known& these, const Known& others) {
  return {(these.half[0] & lanes) | (others.half[0] & ~lanes), (these.half[1] & lanes) | (others.half[1] & ~lanes)};
}

// The operations that fill the halves of a register.
struct Filling {
  u64 half[2];

  void set(u64 operation, u32 halves = 3) {
    for (int k = 0; k < 2; k++) {
      if (halves >> k & 1) half[k] = operation;
    }
  }
  bool is_open(const Counter& counter, u32 halves) const {
    return (halves & 1 && half[0] > counter.done) || (halves & 2 && half[1] > counter.done);
  }
};

struct Wave {
  Known defined[kVectorRegisters];
  u32 scalar[128];
  u32 scc;
  u32 mode;
  bool is_usual;  // whether MODE rounds to nearest even, keeps subnormal numbers, and makes infinity of an overflow
  u64 all, exec, mask;  // the lanes that there are; those that are active; those that the present instruction writes
  u32 lanes;
  Family family;
  u64 next, executed;
  bool done, waiting;
  u64 left_out, left_out_at;  // lanes that a barrier was passed without, and the number of that instruction
  char* scratch;
  u32 scratch_size;
  Group* group;
  u32 number;
  Counter memory, lds, scalars;
  u64 last_lds_write;
  u64 raced, raced_address, raced_with;  // the last load that raced, from 1 on: what it read is taken as undefined
  u64 clock;  // wait states
  u64 stored_at;  // when the last wide store was issued, whose data `stored` and so many registers behind it are
  u32 stored, stored_count, overwritten, store_states;
  Filling from_memory[kVectorRegisters], from_lds[kVectorRegisters];
  u64 from_scalars[128];  // the operation that fills it
  u32 registers;  // vector registers that the target has
  u32 vector[kVectorRegisters][kLanes];  // the last, as a launch fills those of the target alone
};

// Whether subnormal numbers of fp32 are taken and given as they are, and not as zero.
static inline bool keeps_sources(u32 mode) { return mode >> 4 & 1; }
static inline bool keeps_results(u32 mode) { return mode >> 5 & 1; }

static inline void report(Wave& w, const Record& i, FindingKind kind, u64 first, u64 second = 0) {
  u32 record = static_cast<u32>(&i - w.group->code);
  if (kind == kUndefined && w.raced) {
    kind = kRaceInMemory, record = static_cast<u32>(w.raced - 1), first = w.raced_address, second = w.raced_with;
  }
  add(*w.group->findings, {kind, record, first, second, w.number, 0});
}

// A lane that goes on behind a barrier that its wave passed without it: it was elsewhere, and has not ended.
static inline void look_at_left_out(Wave& w) {
  if (!(w.exec & w.left_out)) return;
  report(w, w.group->code[w.left_out_at], kLeftOut, w.exec & w.left_out);
  w.left_out = 0;
}
