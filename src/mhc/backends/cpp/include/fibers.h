// CUDA C++ on a CPU: the threads of a block are fibers of one thread of the operating system.
//
// A fiber runs until it waits at a barrier or a shuffle; then the next one runs. What a GPU leaves undefined is an error
// here, with a message: a barrier that some threads of a block do not reach, two barriers at once, a shuffle without
// some lanes of its warp. Shared memory holds NaN when a block begins, and blocks with an odd number run their threads
// backwards, so that what a missing barrier gives is no accident of the order.
//
// It has what the kernels beside it use: one dimension of threads, static shared memory, __syncthreads,
// __shfl_xor_sync and __shfl_down_sync of whole warps. There are no atomics.
#pragma once
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("mhc_shared")))

struct Index {
  unsigned x, y, z;
};

// Not static, so that the compiler expects them to change while another fiber runs.
Index threadIdx, blockIdx, blockDim, gridDim;

extern "C" {  // the first and the last byte of shared memory: the linker makes them for the section
extern char __start_mhc_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_mhc_shared[] __attribute__((weak, visibility("hidden")));
}

namespace fibers {

constexpr unsigned WARP = 32, MOST_THREADS = 1024;
constexpr size_t STACK = 64 << 10;        // bytes of a fiber
constexpr size_t MOST_SHARED = 48 << 10;  // bytes of a block, as on a GPU without special settings
constexpr uint64_t CANARY = 0x5afe57acc0ffee11;

enum State { READY, AT_BARRIER, AT_SHUFFLE, ENDED };

struct Thread {
#if defined(__x86_64__)
  void* stack_pointer;
#else
  ucontext_t context;
#endif
  State state;
  const char* file;  // of the barrier or the shuffle that it waits at
  int line;
  unsigned shuffles;   // how many it has reached
  uint64_t values[2];  // what it offers to the shuffle with an even and with an odd number
};

struct Machine {
  Thread threads[MOST_THREADS], outside;
  unsigned count, current, at_barrier, ended, at_shuffle[MOST_THREADS / WARP];
  unsigned first_at_barrier, first_at_shuffle[MOST_THREADS / WARP];  // who came first, with which others are compared
  char* stacks;
  void (*body)(void**);
  void** arguments;
  const char* kernel;
  bool failed;
  char* message;
  size_t room;
};

Machine machine;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // one launch at a time: shared memory is there once

#if defined(__x86_64__)
// mhc_switch(where, to): put the registers that a function keeps on the stack, save its pointer, and go on at another.
extern "C" void mhc_switch(void** where, void* to);
asm(".pushsection .text\n"
    ".local mhc_switch\n"
    ".type mhc_switch, @function\n"
    "mhc_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size mhc_switch, . - mhc_switch\n"
    ".popsection\n");

inline void go(Thread& from, Thread& to) { mhc_switch(&from.stack_pointer, to.stack_pointer); }

inline void prepare(Thread& thread, char* stack, void (*entry)()) {
  // As mhc_switch leaves a stack: six registers and where to return to; a function begins 8 bytes off a multiple of 16.
  uint64_t* top = reinterpret_cast<uint64_t*>(stack + STACK) - 8;
  memset(top, 0, 8 * sizeof(uint64_t));
  top[6] = reinterpret_cast<uint64_t>(entry);
  thread.stack_pointer = top;
}
#else
inline void go(Thread& from, Thread& to) { swapcontext(&from.context, &to.context); }

inline void prepare(Thread& thread, char* stack, void (*entry)()) {
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = stack;
  thread.context.uc_stack.ss_size = STACK;
  thread.context.uc_link = &machine.outside.context;
  makecontext(&thread.context, entry, 0);
}
#endif

// Below each stack there is as much again, which a thread that needs too much does not leave at once.
inline char* stack_of(unsigned thread) { return machine.stacks + (2 * thread + 1) * STACK; }

// The lowest bytes of a stack hold a number that is gone if the stack was too small.
inline uint64_t& canary_of(unsigned thread) { return *reinterpret_cast<uint64_t*>(stack_of(thread)); }

inline const char* name_of(const char* file) {
  const char* slash = strrchr(file, '/');
  return slash ? slash + 1 : file;
}

inline void describe(unsigned number, char* text, size_t room) {
  const Thread& thread = machine.threads[number];
  const char* place = thread.state == AT_BARRIER ? "barrier" : "shuffle";
  if (thread.state == ENDED) {
    snprintf(text, room, "thread %u has ended", number);
  } else if (thread.state == READY) {
    snprintf(text, room, "thread %u runs", number);
  } else {
    snprintf(text, room, "thread %u waits at the %s in line %d of %s", number, place, thread.line, name_of(thread.file));
  }
}

inline void fail(const char* reason) {
  if (!machine.failed) {
    snprintf(machine.message, machine.room, "%s, block (%u, %u, %u): %s", machine.kernel, blockIdx.x, blockIdx.y,
             blockIdx.z, reason);
  }
  machine.failed = true;
}

inline void fail_between(const char* reason, unsigned one, unsigned other) {
  char first[160], second[160], text[480];
  describe(one, first, sizeof first);
  describe(other, second, sizeof second);
  snprintf(text, sizeof text, "%s: %s, and %s", reason, first, second);
  fail(text);
}

// Leave the fiber: run the next one that can run, or what called the launch if there is none or something failed.
inline void give_way() {
  const unsigned from = machine.current;
  unsigned next = from;
  bool found = false;
  for (unsigned step = 1; step <= machine.count && !machine.failed && !found; ++step) {
    next = blockIdx.x % 2 ? (from + machine.count - step) % machine.count : (from + step) % machine.count;
    found = machine.threads[next].state == READY;
  }
  if (found && next == from) return;
  if (found) {
    machine.current = next;
    threadIdx.x = next;
    go(machine.threads[from], machine.threads[next]);
  } else {
    if (!machine.failed && machine.ended < machine.count) {
      unsigned waiting = 0, other = 0;
      while (machine.threads[waiting].state == ENDED) ++waiting;
      const Thread& first = machine.threads[waiting];
      const auto is_like_first = [&](const Thread& t) { return t.state == first.state && t.line == first.line; };
      while (other + 1 < machine.count && is_like_first(machine.threads[other])) ++other;
      fail_between(first.state == AT_BARRIER ? "not all threads of the block reach one barrier"
                                             : "not all lanes of a warp reach one shuffle",
                   waiting, other);
    }
    go(machine.threads[from], machine.outside);
  }
  asm volatile("" ::: "memory");
}

// Note where a thread waits, as one of `waiting` that wait there, and compare the place with that of the first of them.
inline void wait(State state, const char* file, int line, unsigned& waiting, unsigned& first, const char* reason) {
  Thread& self = machine.threads[machine.current];
  self.state = state;
  self.file = file;
  self.line = line;
  if (waiting++ == 0) first = machine.current;
  const Thread& other = machine.threads[first];
  if (other.line != line || (other.file != file && strcmp(other.file, file))) {
    fail_between(reason, machine.current, first);
  }
}

inline void barrier(const char* file, int line) {
  wait(AT_BARRIER, file, line, machine.at_barrier, machine.first_at_barrier, "two barriers at once");
  if (machine.at_barrier == machine.count) {
    machine.at_barrier = 0;
    for (unsigned t = 0; t < machine.count; ++t) machine.threads[t].state = READY;
    if (!machine.failed) return;
  }
  give_way();
}

// Offer a value, and return that of another lane once all lanes of the warp have offered theirs.
template <class T>
T exchange(unsigned mask, T value, unsigned source, const char* file, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle takes up to 8 bytes");
  const unsigned self = machine.current, warp = self / WARP, first = warp * WARP;
  const unsigned lanes = machine.count - first < WARP ? machine.count - first : WARP;
  Thread& thread = machine.threads[self];
  const unsigned turn = thread.shuffles++ % 2;  // a lane may reach the next shuffle before another has read
  memcpy(&thread.values[turn], &value, sizeof(T));
  wait(AT_SHUFFLE, file, line, machine.at_shuffle[warp], machine.first_at_shuffle[warp], "two shuffles of a warp at once");
  if (mask != 0xffffffffu) fail("a shuffle of some lanes of a warp: this header has those of all lanes alone");
  if (source >= lanes) fail("a shuffle reads a lane that the block does not have");
  if (machine.at_shuffle[warp] == lanes) {
    machine.at_shuffle[warp] = 0;
    for (unsigned t = first; t < first + lanes; ++t) machine.threads[t].state = READY;
    if (machine.failed) give_way();
  } else {
    give_way();
  }
  T result;
  memcpy(&result, &machine.threads[first + source].values[turn], sizeof(T));
  return result;
}

// The lane whose value a lane gets; beyond its group of `width` lanes it is its own.
inline unsigned lane() { return machine.current % WARP; }
inline unsigned lane_down(unsigned by, unsigned width) { return lane() % width + by < width ? lane() + by : lane(); }
inline unsigned lane_xor(unsigned mask, unsigned width) {
  return (lane() ^ mask) / width <= lane() / width ? lane() ^ mask : lane();
}

inline void run_fiber() {
  machine.body(machine.arguments);
  machine.threads[machine.current].state = ENDED;
  ++machine.ended;
  if (canary_of(machine.current) != CANARY) fail("a thread needs more than 64 KiB of stack");
  give_way();
}

inline void run_block() {
  const size_t shared = __stop_mhc_shared - __start_mhc_shared;
  memset(__start_mhc_shared, 0xff, shared);
  machine.at_barrier = machine.ended = 0;
  memset(machine.at_shuffle, 0, sizeof machine.at_shuffle);
  for (unsigned t = 0; t < machine.count; ++t) {
    Thread& thread = machine.threads[t];
    thread.state = READY;
    thread.shuffles = 0;
    canary_of(t) = CANARY;
    prepare(thread, stack_of(t), run_fiber);
  }
  machine.current = blockIdx.x % 2 ? machine.count - 1 : 0;
  threadIdx.x = machine.current;
  go(machine.outside, machine.threads[machine.current]);
  asm volatile("" ::: "memory");
}

// A kernel has no list of its shared variables: what its first block changed of all that the source declares is its.
inline void check_shared() {
  size_t used = 0;
  for (const char* byte = __start_mhc_shared; byte < __stop_mhc_shared; ++byte) used += *byte != char(0xff);
  if (used > MOST_SHARED) {
    char text[160];
    snprintf(text, sizeof text, "the block writes %zu bytes of shared memory; the limit is %zu", used, MOST_SHARED);
    fail(text);
  }
}

inline void run_grid(Index grid) {
  gridDim = grid;
  blockDim = {machine.count, 1, 1};
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x && !machine.failed; ++x) {
        blockIdx = {x, y, z};
        run_block();
        if (x + y + z == 0) check_shared();
      }
    }
  }
}

inline int launch(const char* kernel, void (*body)(void**), Index grid, unsigned count, void** arguments,
                  char* message, size_t room) {
  pthread_mutex_lock(&lock);
  machine.kernel = kernel;
  machine.body = body;
  machine.arguments = arguments;
  machine.count = count;
  machine.failed = false;
  machine.message = message;
  machine.room = room;
  if (!machine.stacks) {
    void* stacks = mmap(nullptr, 2 * MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) fail("there is no memory for the stacks of the threads");
    else machine.stacks = static_cast<char*>(stacks);
  }
  if (count == 0 || count > MOST_THREADS) fail("a block has 1 to 1024 threads");
  if (!machine.failed) run_grid(grid);
  const int status = machine.failed;
  pthread_mutex_unlock(&lock);
  return status;
}

template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}

template <class... P>
void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>());
}

}  // namespace fibers

#define __syncthreads() fibers::barrier(__FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, by, width) \
  fibers::exchange(mask, value, fibers::lane_xor(by, width), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, by, width) \
  fibers::exchange(mask, value, fibers::lane_down(by, width), __FILE__, __LINE__)

// Make a function NAME_launch that runs the kernel over a grid; its arguments are pointers to those of the kernel, as
// for cuLaunchKernel. It returns 0, or 1 and a message.
#define EXPORT(NAME)                                                                                           \
  extern "C" __attribute__((visibility("default"))) int NAME##_launch(unsigned x, unsigned y, unsigned z,      \
                                                                      unsigned threads, void** arguments,      \
                                                                      char* message, size_t room) {            \
    return fibers::launch(#NAME, [](void** values) { fibers::call(NAME, values); }, {x, y, z}, threads,        \
                          arguments, message, room);                                                           \
  }
