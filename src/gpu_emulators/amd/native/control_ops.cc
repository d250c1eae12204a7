// Branches, barriers, waits and the end of a wave.
#include "modes.h"
#include "scalar_operands.h"

namespace {

static void branch(Wave& w, const Record& i, bool taken) {
  if (taken) w.next = i.target;
}

HANDLER(s_nop) { w.clock += static_cast<i64>(i.immediate); }  // that many states in addition to its own
HANDLER(s_endpgm) { w.done = true; }
HANDLER(s_trap) {
  report(w, i, kTrap, w.exec);
  w.done = true;
}
HANDLER(s_branch) { branch(w, i, true); }
HANDLER(s_cbranch_scc0) { branch(w, i, !w.scc); }
HANDLER(s_cbranch_scc1) { branch(w, i, w.scc); }
HANDLER(s_cbranch_vccz) { branch(w, i, vcc(w) == 0); }
HANDLER(s_cbranch_vccnz) { branch(w, i, vcc(w) != 0); }
HANDLER(s_cbranch_execz) { branch(w, i, w.exec == 0); }
HANDLER(s_cbranch_execnz) { branch(w, i, w.exec != 0); }

// Addresses of the code, and jumps to them: to a function, and back.
static u64 behind(Wave& w, const Record& i) { return w.group->text + static_cast<u64>(static_cast<i64>(i.immediate)); }

static void jump(Wave& w, const Record& i, u64 to) {
  const Group& g = *w.group;
  const u64 word = (to - g.text + 4 * g.before) / 4;
  if (to % 4 || word >= g.words || g.places[word] == ~0u) {
    report(w, i, kUnknown, to, 2);
    w.done = true;
    return;
  }
  w.next = g.places[word];
}

HANDLER(s_getpc_b64) { result64(w, i, behind(w, i)); }
HANDLER(s_setpc_b64) { jump(w, i, source64(w, i, 0)); }
HANDLER(s_swappc_b64) {
  const u64 to = source64(w, i, 0);
  result64(w, i, behind(w, i));
  jump(w, i, to);
}

// A wave waits here for the others. What it wrote to LDS has to be there before.
HANDLER(s_barrier) {
  look_at_left_out(w);
  if (w.last_lds_write > w.lds.done) report(w, i, kNoWait, kBarrier);
  w.group->awaited[w.number] = w.lds.done;
  const u64 absent = w.all & ~w.exec;
  if (absent & ~w.left_out) w.left_out_at = static_cast<u64>(&i - w.group->code);
  w.left_out |= absent;
  w.waiting = true;
}

// Loads from memory through scalars come back in any order: only a wait for all of them says that one is done.
static void wait_for_lds(Wave& w, u32 left) {
  if (left == 0) {
    w.lds.done = w.lds.issued;
    return;
  }
  for (u32 number = 0; number < 128; number++) {
    if (w.from_scalars[number] > w.lds.done) return;
  }
  w.lds.wait(left);
}

HANDLER(s_waitcnt) {
  const u32 counts = static_cast<u32>(i.immediate);
  if (w.family == kCdna) {
    w.memory.wait((counts & 15) | (counts >> 14 & 3) << 4);
    if ((counts >> 8 & 15) != 15) wait_for_lds(w, counts >> 8 & 15);
  } else {
    w.memory.wait(counts >> 10 & 63);
    if ((counts >> 4 & 63) != 63) wait_for_lds(w, counts >> 4 & 63);
  }
}

HANDLER(s_wait_idle) {
  for (Counter* counter : {&w.memory, &w.lds, &w.scalars}) counter->done = counter->issued;
}

HANDLER(s_waitcnt_lgkmcnt) { wait_for_lds(w, i.immediate & 63); }

// MODE. parameter: the first bit, and how many bits
enum ModeParameter { kFirstBit, kBits };

static u64 mode_bits(const Record& i) { return (1ull << i.parameter[kBits]) - 1; }

HANDLER(get_mode) { set_scalar(w, i.scalar_destination, static_cast<u32>(w.mode >> i.parameter[kFirstBit] & mode_bits(i))); }

HANDLER(set_mode) {
  const u64 given = (source32(w, i, 0) & mode_bits(i)) << i.parameter[kFirstBit];
  const u32 mode = static_cast<u32>((w.mode & ~(mode_bits(i) << i.parameter[kFirstBit])) | given);
  const u32 unknown = (mode ^ w.mode) & ~(kModes | 1u << kOverflowBit), clears = (mode & kKeepsOthers) != kKeepsOthers;
  if (unknown || clears) return report(w, i, kUnknown, mode, 1);
  set_mode(w, mode);
}

// RDNA 4 has an instruction for each counter.
HANDLER(s_wait_loadcnt) { w.memory.wait(i.immediate & 63); }
HANDLER(s_wait_dscnt) { w.lds.wait(i.immediate & 63); }
HANDLER(s_wait_kmcnt) {
  if ((i.immediate & 31) == 0) w.scalars.done = w.scalars.issued;
}
HANDLER(s_wait_loadcnt_dscnt) {
  w.memory.wait(i.immediate >> 8 & 63);
  w.lds.wait(i.immediate & 63);
}
HANDLER(s_wait_storecnt_dscnt) { w.lds.wait(i.immediate & 63); }

}  // namespace
