// A launch: blocks in turn, and the warps of one in turn from barrier to barrier. This is what Python calls.
#include "memory.h"

namespace control_ops {
void look_at_barriers(Group& g);
}

struct Launch {
  u32 grid[3], threads[3];
  u32 shared, local, registers, spoiled;
};

// A register that a warp begins with: a constant, or one of the special registers.
struct Given {
  u32 number, special;
  u64 value;
};

namespace {

enum Special {
  kConstant, kTidX, kTidY, kTidZ, kNtidX, kNtidY, kNtidZ, kCtaidX, kCtaidY, kCtaidZ, kNctaidX, kNctaidY, kNctaidZ,
  kLaneId, kWarpId, kNwarpId, kMaskEq, kMaskLe, kMaskLt, kMaskGe, kMaskGt, kZero, kClock, kDynamicShared,
};

u64 special(const Launch& launch, u32 which, u32 warp, u32 lane, const u32* block, u64 value) {
  const u32 thread = warp * kLanes + lane, x = launch.threads[0], y = launch.threads[1];
  const u32 count = x * y * launch.threads[2];
  switch (which) {
    case kConstant: return value;
    case kTidX: return thread % x;
    case kTidY: return thread / x % y;
    case kTidZ: return thread / x / y;
    case kNtidX: case kNtidY: case kNtidZ: return launch.threads[which - kNtidX];
    case kCtaidX: case kCtaidY: case kCtaidZ: return block[which - kCtaidX];
    case kNctaidX: case kNctaidY: case kNctaidZ: return launch.grid[which - kNctaidX];
    case kLaneId: return lane;
    case kWarpId: return warp;
    case kNwarpId: return (count + kLanes - 1) / kLanes;
    case kMaskEq: return 1u << lane;
    case kMaskLe: return (2u << lane) - 1;
    case kMaskLt: return (1u << lane) - 1;
    case kMaskGe: return ~((1u << lane) - 1);
    case kMaskGt: return ~((2u << lane) - 1);
    case kDynamicShared: return launch.shared;
    default: return 0;
  }
}

void begin(Wave& w, const Launch& launch, Group& group, u32 number, const u32* block, const Given* given, u32 count) {
  memset(w.values.data(), static_cast<int>(launch.spoiled), w.values.size() * sizeof(u64));
  std::fill(w.defined.begin(), w.defined.end(), 0u);
  std::fill(w.unknown.begin(), w.unknown.end(), 0xff);
  std::fill(w.filled.begin(), w.filled.end(), 0u);
  std::fill(w.local.begin(), w.local.end(), static_cast<char>(launch.spoiled));
  const u32 threads = launch.threads[0] * launch.threads[1] * launch.threads[2], left = threads - number * kLanes;
  w.all = left >= kLanes ? ~0u : (1u << left) - 1;
  w.active = w.all, w.parked = w.exited = 0, w.least = ~0u, w.next = w.turn = 0, w.number = number, w.executed = 0;
  w.waiting = w.spinning = false, w.group = &group;
  w.clocks.assign(group.agents, 0), w.clocks[number] = 1;
  w.copies = w.products = w.bulk = Started(), w.products_done = 0, w.raced = 0;
  for (u32 k = 0; k < count; k++) {
    u64* to = w.lanes(given[k].number);
    for (u32 lane = 0; lane < kLanes; lane++) to[lane] = special(launch, given[k].special, number, lane, block, given[k].value);
    w.defined[given[k].number] = ~0u;
  }
}

// Choose the lanes that go on: those with the least turn, which are at one place.
void gather(Wave& w) {
  park(w, w.active, w.next, w.turn);
  w.turn = w.least, w.least = ~0u;
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.parked >> lane & 1)) continue;
    if (w.turns[lane] == w.turn) w.active |= 1u << lane, w.next = w.at[lane];
    else w.least = std::min(w.least, w.turns[lane]);
  }
  w.parked &= ~w.active;
}

// A bit for each byte, as all bits of the byte; and the bytes in which a bit is set.
u64 spread(u32 bytes) {
  u64 bits = 0;
  for (u32 k = 0; k < 8; k++) bits |= bytes >> k & 1 ? 0xffull << 8 * k : 0;
  return bits;
}

u32 bytes_in(u64 bits) {
  u32 bytes = 0;
  for (u32 k = 0; k < 8; k++) bytes |= static_cast<u32>((bits >> 8 * k & 0xff) != 0) << k;
  return bytes;
}

void check_products(Wave& w, const Record& i) {
  u32 filled = 0;
  for (u32 k = 0; k < i.to + i.from; k++) {
    const u32 number = w.group->operands[i.first + k];
    if (w.filled[number] <= w.products_done) continue;
    if (i.flags & kCopies && k >= i.to) filled = std::max(filled, w.filled[number]);
    else report(w, i, kRegisterInUse, number), w.filled[number] = 0;
  }
  for (u32 k = 0; filled && k < i.to; k++) w.filled[target(w, i, k)] = filled;
}

// Some bytes of the sources are not known: a byte of a result is, where it is the same whatever stands in these.
void execute_in_parts(Wave& w, const Record& i, u32 defined) {
  constexpr u64 kTried[] = {~0ull, 0x5555555555555555, 0xcccccccccccccccc, 0x0f0f0f0f0f0f0f0f};
  constexpr u32 kTries = 4;
  std::vector<u64> sources, results, changed(static_cast<size_t>(i.to) * kLanes);
  for (u32 k = 0; k < i.from; k++) sources.insert(sources.end(), w.lanes(origin(w, i, k)), w.lanes(origin(w, i, k)) + kLanes);
  for (u32 attempt = 0; attempt <= kTries; attempt++) {  // the last with what stands there
    for (u32 k = 0; k < i.from && attempt < kTries; k++) {
      for (u32 lane = 0; lane < kLanes; lane++) {
        const u64 bits = spread(unknown_in(w, origin(w, i, k), lane)), tried = attempt ? kTried[(attempt + k) % kTries] : 0;
        w.lanes(origin(w, i, k))[lane] = (sources[k * kLanes + lane] & ~bits) | (tried & bits);
      }
    }
    for (u32 k = 0; k < i.from && attempt == kTries; k++) std::copy_n(&sources[k * kLanes], kLanes, w.lanes(origin(w, i, k)));
    i.handler(w, i);
    for (u32 k = 0; k < i.to; k++) {
      for (u32 lane = 0; lane < kLanes && attempt < kTries; lane++) {
        const u64 result = w.lanes(target(w, i, k))[lane];
        if (!attempt) results.push_back(result);
        changed[k * kLanes + lane] |= result ^ results[k * kLanes + lane];
      }
    }
  }
  const u64 whole = ~0ull >> (64 - 8 * (i.flags >> kPartsShift));
  for (u32 k = 0; k < i.to; k++) {
    for (u32 lane = 0; lane < kLanes; lane++) {
      if (!(w.mask >> lane & 1)) continue;
      set_unknown(w, target(w, i, k), lane, defined >> lane & 1 ? 0 : bytes_in(changed[k * kLanes + lane] & whole));
    }
  }
}

void execute(Wave& w, const Record& i) {
  if (w.products.count > w.products_done && !(i.flags & kProducts)) check_products(w, i);
  if (!(i.flags & kPropagates)) return i.handler(w, i);
  u32 defined = ~0u;
  for (u32 k = 0; k < i.from; k++) defined &= w.defined[origin(w, i, k)];
  if (w.mask & ~defined && i.flags >> kPartsShift) return execute_in_parts(w, i, defined);
  i.handler(w, i);
  for (u32 k = 0; k < i.to; k++) define(w, target(w, i, k), defined);
}

// Run a warp to where it has to wait, or to its end; false where it leaves the code or the limit is met.
bool advance(Wave& w, u32 size, u64 limit) {
  w.spinning = false;
  while (!w.waiting && !w.spinning) {
    if (w.parked && (!w.active || w.turn >= w.least)) gather(w);
    if (!w.active) return true;
    if (w.next >= size || w.executed >= limit) return false;
    const Record& i = w.group->code[w.next++];
    w.executed++;
    w.mask = w.active;
    if (i.guard >= 0) {
      const u32 guard = static_cast<u32>(i.guard);
      check_defined(w, i, guard, kAsCondition);
      w.mask &= bits_of(w, guard) ^ (i.negated ? ~0u : 0);
    }
    w.turn = 0;
    if (w.mask) execute(w, i);
    if (!w.turn && w.active) w.turn = turn_behind(w, i);
  }
  return true;
}

// Run the warps in turn until all have ended. Where none can go on, what they wait for never comes.
bool run_group(Group& g, u32 size, u64 limit) {
  u64 before = ~0ull;
  for (u32 idle = 0;;) {
    bool is_running = false, has_moved = false;
    u64 sum = 0;
    for (Wave* wave : g.all) {
      if (wave->is_done()) continue;
      is_running = true;
      if (!wave->waiting) {
        if (!advance(*wave, size, limit)) return false;
        has_moved |= !wave->spinning;
        if (wave->is_done()) control_ops::look_at_barriers(g);
      }
    }
    if (!is_running) return true;
    for (Wave* wave : g.all) sum += wave->waiting ? 1 : 0;
    idle = has_moved || sum != before ? 0 : idle + 1;
    before = sum;
    if (idle > 64) {
      for (Wave* wave : g.all) {
        if (!wave->is_done()) return report(*wave, g.code[wave->next ? wave->next - 1 : 0], kDeadlock), true;
      }
    }
  }
}

}  // namespace

extern "C" {

u32 record_size() { return sizeof(Record); }

// Execute one instruction on registers that are given: for tests of its meaning.
void execute_one(const Record* code, const u32* operands, u64* values, u32 registers) {
  Findings found;
  History history;
  Group group{};
  Wave w{};
  group.waves = 1, group.agents = 5, group.code = code, group.operands = operands, group.findings = &found;
  group.history = &history, group.all = {&w};
  w.values.assign(values, values + static_cast<size_t>(registers) * kLanes);
  w.defined.assign(registers, ~0u), w.unknown.resize(static_cast<size_t>(registers) * kLanes), w.filled.assign(registers, 0), w.clocks.assign(5, 0);
  w.mask = w.active = w.all = ~0u, w.group = &group;
  code->handler(w, *code);
  memcpy(values, w.values.data(), w.values.size() * sizeof(u64));
}

// Return how many instructions the warps executed, or ~0 where the limit or the end of the code was met.
u64 run(const Record* code, u32 size, const u32* operands, const Launch* launch, const Given* given, u32 given_count,
        const Region* regions, u32 region_count, Finding* findings, u32* finding_count, u64 limit) {
  Findings found;
  History history;
  const u32 waves = (launch->threads[0] * launch->threads[1] * launch->threads[2] + kLanes - 1) / kLanes;
  std::vector<Wave> warps(waves);
  for (Wave& w : warps) {
    w.values.resize(static_cast<size_t>(launch->registers) * kLanes);
    w.unknown.resize(static_cast<size_t>(launch->registers) * kLanes);
    w.defined.resize(launch->registers), w.filled.resize(launch->registers);
    w.local.resize(static_cast<size_t>(launch->local) * kLanes), w.local_bytes = launch->local;
  }
  const u64 count = static_cast<u64>(launch->grid[0]) * launch->grid[1] * launch->grid[2];
  u64 executed = 0;
  bool is_good = true;
  for (u64 k = 0; k < count && is_good; k++) {
    const u32 rest = static_cast<u32>(k / launch->grid[0]);
    const u32 block[3] = {static_cast<u32>(k % launch->grid[0]), rest % launch->grid[1], rest / launch->grid[1]};
    Group group{};
    group.waves = waves, group.agents = 4 * waves + 1;
    group.shared.assign(launch->shared, static_cast<char>(launch->spoiled)), group.bytes.resize(launch->shared);
    group.reads.resize(static_cast<size_t>(launch->shared) * group.agents);
    group.regions = regions, group.region_count = region_count, group.code = code, group.operands = operands;
    group.findings = &found, group.history = &history, group.id = static_cast<u32>(k) + 1;
    history.begin(group.id);
    for (u32 number = 0; number < waves; number++) {
      begin(warps[number], *launch, group, number, block, given, given_count);
      group.all.push_back(&warps[number]);
    }
    is_good = run_group(group, size, limit);
    for (Wave& wave : warps) executed += wave.executed;
  }
  give(found, findings, finding_count);
  return is_good ? executed : ~0ull;
}
}
