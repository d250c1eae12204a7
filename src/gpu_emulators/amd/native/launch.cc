// A launch: workgroups in turn, and the waves of one in turn from barrier to barrier. This is what Python calls.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "modes.h"
#include "races.h"
#include "scalar_operands.h"

struct Launch {
  u32 grid[3];
  u32 threads, waves, lanes, family, lds, scratch, user_scalars, group_ids, argument_register, has_scratch_buffer;
  u32 block_x, block_y, item_ids, has_packed_ids;
  u64 arguments;  // where the kernel finds them
  u64 text;  // where its code begins
  const u32* places;  // the record at each word of the code object, which has so many before the kernel and in all
  u64 before, words;
  u64 packet, queue;  // 0 where the kernel does not ask for them
  u32 preloaded, start, spoiled, store_states, mode, registers, has_number;
};

constexpr u32 kLongestLoop = 1 << 16;  // instructions of a loop that is looked for behind the limit

struct Place {
  u32 x, y, z;
};

namespace {

// Fill what nobody has written yet, so that a kernel that reads it shows it in its numbers.
void spoil(Wave& w, u32 byte) {
  memset(w.vector, static_cast<int>(byte), w.registers * sizeof *w.vector);
  memset(w.scalar, static_cast<int>(byte), sizeof w.scalar);
}

void set_group_ids(Wave& w, const Launch& launch, Place place) {
  if (launch.family == kRdna4) {  // in the registers of the trap handler, as is the number of the wave
    w.scalar[117] = place.x;
    w.scalar[116] = w.number << 25;
    w.scalar[115] = place.y | place.z << 16;
    return;
  }
  u32 next = launch.user_scalars;
  if (launch.group_ids & 1) w.scalar[next++] = place.x;
  if (launch.group_ids & 2) w.scalar[next++] = place.y;
  if (launch.group_ids & 4) w.scalar[next++] = place.z;
}

// The place of each thread in its block: on newer targets ten bits each of one register.
void set_item_ids(Wave& w, const Launch& launch) {
  for (u32 lane = 0; lane < launch.lanes; lane++) {
    const u32 thread = w.number * launch.lanes + lane, row = thread / launch.block_x;
    const u32 ids[] = {thread % launch.block_x, row % launch.block_y, row / launch.block_y};
    if (launch.has_packed_ids) w.vector[0][lane] = 0;
    for (u32 k = 0; k <= launch.item_ids; k++) {
      if (launch.has_packed_ids) w.vector[0][lane] |= ids[k] << 10 * k;
      else w.vector[k][lane] = ids[k], w.defined[k] = ~0ull;
    }
  }
  w.defined[0] = ~0ull;
}

void begin(Wave& w, const Launch& launch, Group& group, u32 number, char* scratch, const u32* words, Place place) {
  memset(static_cast<void*>(&w), 0, offsetof(Wave, vector));
  w.registers = launch.registers;
  spoil(w, launch.spoiled);
  w.lanes = launch.lanes;
  const u32 there = std::min(launch.lanes, launch.threads - number * launch.lanes);  // of the last wave perhaps not all
  w.all = w.exec = ~0ull >> (64 - there);
  w.family = static_cast<Family>(launch.family);
  w.group = &group;
  w.number = number;
  w.scratch = scratch;
  w.scratch_size = launch.scratch;
  w.next = launch.start;
  w.store_states = launch.store_states;
  set_mode(w, launch.mode);
  const u32 at = launch.argument_register;
  if (launch.has_scratch_buffer) w.scalar[0] = w.scalar[1] = w.scalar[2] = 0, w.scalar[3] = 1u << 23;
  u32 next = launch.has_scratch_buffer ? 4 : 0;
  for (const u64 pointer : {launch.packet, launch.queue}) {
    if (pointer) w.scalar[next++] = static_cast<u32>(pointer), w.scalar[next++] = static_cast<u32>(pointer >> 32);
  }
  w.scalar[at] = static_cast<u32>(launch.arguments);
  w.scalar[at + 1] = static_cast<u32>(launch.arguments >> 32);
  if (launch.has_number) w.scalar[at + 2] = w.scalar[at + 3] = 0;  // of the dispatch: it is the first
  for (u32 k = 0; k < launch.preloaded; k++) w.scalar[at + 2 + k] = words[k];
  set_group_ids(w, launch, place);
  set_item_ids(w, launch);
}

// CDNA reads the data of a store of more than two registers late: a vector instruction may write them only after some
// wait states.
void check_overwritten(Wave& w, const Record& record) {
  if (w.overwritten && w.clock - w.stored_at <= w.store_states) {
    report(w, record, kOverwritten, w.overwritten - 1, w.clock - w.stored_at - 1);
  }
  w.overwritten = 0;
}

// Say which instructions a wave that met the limit repeats, and which lanes do so.
void report_loop(Wave& w, const Record* code, u32 size) {
  const u64 exec = w.exec;
  u64 first = w.next, last = w.next;
  for (u32 k = 0; k < kLongestLoop && !w.done && w.next < size; k++) {
    first = std::min(first, w.next), last = std::max(last, w.next);
    const Record& record = code[w.next++];
    perform(w, record);
  }
  if (!w.done && w.next < size) report(w, code[first], kNoEnd, last - first + 1, exec);
}

// Run a wave to its next barrier or its end; false where it leaves the code or the limit is met.
bool advance(Wave& w, const Record* code, u32 size, u64 limit) {
  w.waiting = false;
  while (!w.done && !w.waiting) {
    if (w.next >= size) return false;
    if (w.group->executed++ >= limit) return report_loop(w, code, size), false;
    const Record& record = code[w.next++];
    perform(w, record);
    w.executed++;
    check_overwritten(w, record);
    w.clock++;
  }
  return true;
}


bool run_group(std::vector<Wave*>& waves, Group& group, u32 size, u64 limit) {
  for (bool is_running = true; is_running; group.interval++) {
    is_running = false;
    for (Wave* wave : waves) {
      if (wave->done) continue;
      if (!advance(*wave, group.code, size, limit)) return false;
      is_running = true;
    }
  }
  return true;
}

}  // namespace

extern "C" {

u32 record_size() { return sizeof(Record); }

// Write the names of all handlers, a line each, and return how many bytes that takes.
u32 handler_names(char* to, u32 size) {
  std::string names;
  for (auto& [name, _] : handlers()) names += name + "\n";
  if (names.size() < size) memcpy(to, names.c_str(), names.size() + 1);
  return static_cast<u32>(names.size());
}

// Execute one instruction on registers that are given, and leave there what it wrote: for tests of its meaning.
void execute(const Record* code, u32 lanes, u32 family, u32 mode, u32* vectors, u32 count, u32* scalars, u64* exec,
             u32* scc) {
  Findings found;
  History history;
  Group group{{}, {}, 1, nullptr, 0, code, &found};
  group.history = &history;
  Wave* w = static_cast<Wave*>(aligned_alloc(64, (sizeof(Wave) + 63) / 64 * 64));
  memset(static_cast<void*>(w), 0, offsetof(Wave, vector) + 2 * kEncoded * sizeof *w->vector);
  w->registers = 2 * kEncoded, w->lanes = lanes, w->family = static_cast<Family>(family), w->group = &group, w->exec = *exec, w->scc = *scc;
  memcpy(w->vector, vectors, sizeof(u32) * kLanes * count);
  memcpy(w->scalar, scalars, sizeof w->scalar);
  for (Known& known : w->defined) known = ~0ull;
  set_mode(*w, mode);
  perform(*w, *code);
  memcpy(vectors, w->vector, sizeof(u32) * kLanes * count);
  memcpy(scalars, w->scalar, sizeof w->scalar);
  *exec = w->exec, *scc = w->scc;
  free(w);
}

// Return how many instructions the waves executed, or ~0 where the limit or the end of the code was met.
u64 run(const Record* code, u32 size, const Launch* launch, const Region* regions, u32 region_count, const u32* words,
        Finding* findings, u32* finding_count, u64 limit) {
  Findings found;
  std::vector<Wave*> waves;
  History history;
  for (u32 k = 0; k < launch->waves; k++) {
    waves.push_back(static_cast<Wave*>(aligned_alloc(64, (sizeof(Wave) + 63) / 64 * 64)));
  }
  std::vector<char> scratch(static_cast<size_t>(launch->scratch) * kLanes * launch->waves);
  const u64 count = static_cast<u64>(launch->grid[0]) * launch->grid[1] * launch->grid[2];
  u64 executed = 0;
  bool is_good = true;
  for (u64 k = 0; k < count && is_good; k++) {
    const u32 x = static_cast<u32>(k % launch->grid[0]), rest = static_cast<u32>(k / launch->grid[0]);
    Group group{std::vector<char>(launch->lds, static_cast<char>(launch->spoiled)), std::vector<Byte>(launch->lds), 1,
                regions, region_count, code, &found};
    group.text = launch->text, group.places = launch->places, group.before = launch->before, group.words = launch->words;
    group.history = &history, group.id = static_cast<u32>(k) + 1, group.awaited.resize(launch->waves);
    history.begin(group.id);
    for (u32 number = 0; number < launch->waves; number++) {
      char* own = scratch.data() + static_cast<size_t>(launch->scratch) * kLanes * number;
      begin(*waves[number], *launch, group, number, own, words, {x, rest % launch->grid[1], rest / launch->grid[1]});
    }
    is_good = run_group(waves, group, size, limit);
    for (Wave* wave : waves) executed += wave->executed;
  }
  for (Wave* wave : waves) free(wave);
  give(found, findings, finding_count);
  return is_good ? executed : ~0ull;
}
}
