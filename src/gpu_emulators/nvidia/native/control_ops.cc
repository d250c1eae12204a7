// Branches, ends, barriers of a block, and fences.
#include "memory.h"

namespace control_ops {

void leave(Wave& w) { w.active &= ~w.mask, w.exited |= w.mask; }

// bra: parameters: where it leads, and the turn of the lanes there. Where lanes part, all wait for their turn.
HANDLER(bra) {
  const u32 to = static_cast<u32>(i.parameter[0]), turn = static_cast<u32>(i.parameter[1]);
  if (w.group->code[to].flags & kEnds) return leave(w);
  if (w.mask == w.active) {
    w.next = to, w.turn = turn;
    return;
  }
  park(w, w.active & ~w.mask, w.next, turn_behind(w, i));
  park(w, w.active, to, turn);
}

HANDLER(ret) { leave(w); }

HANDLER(trap) {
  report(w, i, kTrap);
  leave(w);
}

u32 threads_that_run(const Group& g) {
  u32 count = 0;
  for (const Wave* wave : g.all) count += wave->is_done() ? 0 : kLanes;
  return count;
}

void release(Group& g, Barrier& barrier) {
  for (u32 number : barrier.waiting) {
    Wave& one = *g.all[number];
    join(one.clocks, barrier.clocks);
    one.clocks[number]++;
    one.waiting = false;
  }
  barrier = Barrier();
  g.interval++;
}

// Parameters: whether it only arrives, whether it needs the whole warp. Sources: the barrier's number, and threads.
HANDLER(bar) {
  Group& g = *w.group;
  const u32 lane = static_cast<u32>(__builtin_ctz(w.mask)), number = static_cast<u32>(w.lanes(origin(w, i, 0))[lane]);
  if (i.parameter[1] && (w.parked || w.mask != w.active)) report(w, i, kDivergent);
  Barrier& barrier = g.barriers[number];
  if (barrier.clocks.empty()) barrier.clocks.assign(g.agents, 0);
  join(barrier.clocks, w.clocks);
  barrier.arrived += kLanes;
  if (i.parameter[0]) w.clocks[w.number]++;
  else barrier.waiting.push_back(w.number), w.waiting = true;
  const u32 wanted = i.from > 1 ? static_cast<u32>(w.lanes(origin(w, i, 1))[lane]) : threads_that_run(g);
  if (barrier.arrived >= wanted) release(g, barrier);
}

HANDLER(nothing) {}

// A warp that ends may be what a barrier of all threads waits for.
void look_at_barriers(Group& g) {
  for (auto& [number, barrier] : g.barriers) {
    if (!barrier.waiting.empty() && number == 0 && barrier.arrived >= threads_that_run(g)) release(g, barrier);
  }
}

}  // namespace control_ops
