// The state of a launch: records of instructions, warps with their registers, blocks with their shared memory, findings.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "formats.h"
#include "handlers.h"
#include "races.h"

constexpr u32 kLanes = 32, kParameters = 6;
constexpr u64 kSharedWindow = 1ull << 60, kLocalWindow = 1ull << 61;  // generic addresses of these spaces

enum Flag : u32 {
  kPropagates = 1,  // the result is defined where all sources are
  kProducts = 2,    // it may use registers that a product is still to fill
  kCopies = 4,      // it gives them another name, which is filled by the same product
  kEnds = 8,        // lanes that come here end, and do nothing else
};
constexpr u32 kPartsShift = 4;  // behind the flags: the bytes of each result that are known for themselves; 0: it has none

// One instruction, as Python's `records.py` lays it out. Its operands are registers: first those that it writes.
struct Record {
  Handler* handler;
  u32 first, to, from, flags;
  i32 guard;
  u32 negated;
  i64 parameter[kParameters];
  u32 turn, behind;
};

enum FindingKind : u32 {
  kReadOutside = 1, kWriteOutside, kNoWait, kRace, kSharedOutside, kUndefined, kMisaligned, kWriteProtected, kRaceInMemory,
  kDivergent, kDeadlock, kTrap, kRegisterInUse, kUnknownForm, kSamePlace, kUnknownMap,
};

enum Use : u64 { kInAddress, kAsData, kAsCondition };

// What is known of one byte of shared memory. An agent is a warp, or something that a warp has started.
struct Byte {
  u32 writer, written;  // the agent, and its clock then; 0 is never
  u64 touched;          // the last instruction that wrote it
  bool defined;
};

using Clocks = std::vector<u32>;  // of each agent: what is known to have happened

static inline void join(Clocks& known, const Clocks& other) {
  for (size_t k = 0; k < known.size(); k++) known[k] = std::max(known[k], other[k]);
}

struct Barrier {  // bar.sync
  u32 arrived = 0;
  Clocks clocks;
  std::vector<u32> waiting;
};

struct Transaction {  // an mbarrier
  u32 expected, pending;
  i64 bytes;
  u64 phase;
  Clocks arriving, released;
};

struct Group {
  std::vector<char> shared;
  std::vector<Byte> bytes;
  std::vector<u32> reads;  // of each byte and agent: when it read
  u32 waves, agents;
  const Region* regions;
  u32 region_count;
  const Record* code;
  const u32* operands;
  Findings* findings;
  History* history;
  std::vector<Wave*> all;
  std::unordered_map<u32, Barrier> barriers;
  std::unordered_map<u64, Transaction> transactions;
  u64 writes = 0;
  u32 interval = 1, id = 0, bulk_clock = 0;
};

// Operations that a warp has started and that end later: their number, and where each group of them ends.
struct Started {
  u32 count = 0;
  std::vector<u32> groups;

  void commit() { groups.push_back(count); }
  u32 done_with(u64 left) const { return groups.size() > left ? groups[groups.size() - 1 - left] : 0; }
};

struct Wave {
  std::vector<u64> values;    // 32 for each register; a predicate has its bits in the first
  std::vector<u32> defined;   // the lanes that hold what was written, in each byte
  std::vector<u8> unknown;    // of the other lanes: the bytes that do not
  std::vector<u32> filled;    // the product that fills the register
  std::vector<char> local;
  u32 local_bytes;
  u32 active, mask, parked, exited, all;  // mask: the lanes of the present instruction
  u32 at[kLanes], turns[kLanes];          // where a parked lane goes on, and its turn
  u32 least;                              // the least of these turns
  u32 next, turn, number;                 // of the lanes that are active
  u64 executed;
  bool waiting, spinning;
  Group* group;
  Clocks clocks;
  Started copies, products, bulk;
  u32 products_done;
  u64 raced, raced_address, raced_with;

  u64* lanes(u32 number) { return values.data() + static_cast<size_t>(number) * kLanes; }
  bool is_done() const { return !active && !parked; }
};

// The agents of a warp other than itself: its copies by cp.async, its products by wgmma, its bulk copies from shared
// memory. The last agent of a block is the engine that copies into shared memory.
static inline u32 copies_of(const Wave& w) { return w.group->waves + w.number; }
static inline u32 products_of(const Wave& w) { return 2 * w.group->waves + w.number; }
static inline u32 bulk_of(const Wave& w) { return 3 * w.group->waves + w.number; }
static inline u32 engine_of(const Group& g) { return 4 * g.waves; }

static inline u32 target(const Wave& w, const Record& i, u32 k = 0) { return w.group->operands[i.first + k]; }
static inline u32 origin(const Wave& w, const Record& i, u32 k) { return w.group->operands[i.first + i.to + k]; }

static inline void report(Wave& w, const Record& i, FindingKind kind, u64 first = 0, u64 second = 0) {
  u32 record = static_cast<u32>(&i - w.group->code);
  add(*w.group->findings, {kind, record, first, second, w.number, 0});
}

// Write a result into the lanes that are on.
template <class Operation>
static inline void each(Wave& w, const Record& i, Operation operation, u32 k = 0) {
  u64* to = w.lanes(target(w, i, k));
  if (w.mask == ~0u) {
    for (u32 lane = 0; lane < kLanes; lane++) to[lane] = operation(lane);
    return;
  }
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (w.mask >> lane & 1) to[lane] = operation(lane);
  }
}

static inline void set_bits(Wave& w, u32 number, u32 bits) {
  u64& to = *w.lanes(number);
  to = (to & ~static_cast<u64>(w.mask)) | (bits & w.mask);
}

static inline u32 bits_of(Wave& w, u32 number) { return static_cast<u32>(*w.lanes(number)); }

static inline void define(Wave& w, u32 number, u32 defined = ~0u) {
  w.defined[number] = (w.defined[number] & ~w.mask) | (defined & w.mask);
  if (w.mask & ~defined) std::fill_n(&w.unknown[static_cast<size_t>(number) * kLanes], kLanes, 0xff);
}

static inline u32 unknown_in(const Wave& w, u32 number, u32 lane) {
  return w.defined[number] >> lane & 1 ? 0 : w.unknown[static_cast<size_t>(number) * kLanes + lane];
}

static inline void set_unknown(Wave& w, u32 number, u32 lane, u32 bytes) {
  w.defined[number] = (w.defined[number] & ~(1u << lane)) | static_cast<u32>(!bytes) << lane;
  w.unknown[static_cast<size_t>(number) * kLanes + lane] = static_cast<u8>(bytes);
}

// Say of each lane that is on which bytes are not known.
static inline void know(Wave& w, u32 number, const u32* unknown) {
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (w.mask >> lane & 1) set_unknown(w, number, lane, unknown[lane]);
  }
}

static inline u32 turn_behind(const Wave& w, const Record& i) { return i.behind ? i.behind : w.group->code[w.next].turn; }

// Let lanes wait for their turn.
static inline void park(Wave& w, u32 lanes, u32 at, u32 turn) {
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (lanes >> lane & 1) w.at[lane] = at, w.turns[lane] = turn;
  }
  w.parked |= lanes, w.active &= ~lanes;
  if (lanes) w.least = std::min(w.least, turn);
}

// Report a source that nobody wrote in a lane that is on.
static inline void check_defined(Wave& w, const Record& i, u32 number, Use use) {
  if (!(w.mask & ~w.defined[number])) return;
  if (w.raced) {
    const Record& reader = w.group->code[w.raced - 1];
    return report(w, reader, kRaceInMemory, w.raced_address, w.raced_with);
  }
  report(w, i, kUndefined, number, use);
}
