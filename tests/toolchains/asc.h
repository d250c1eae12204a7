// Stands in for the headers of Huawei's toolkit, so that g++ compiles AscendC as TileLang writes it, for one core at a
// time. Copies are done at once and flags do nothing: what the order of an NPU's pipes changes is not seen here.
// A vector function's threads are contexts that take turns at barriers. The core's memory is poisoned before each core.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
#include <ucontext.h>

using std::max;
using std::min;

#define __gm__
#define __ubuf__
#define __simt_vf__
#define __global__
#define __vector__
#define __launch_bounds__(threads)

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  explicit bfloat16_t(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    bits = std::isnan(value) ? 0x7fc0 : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  }
  operator float() const {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
  }
};
struct bfloat16x2_t { bfloat16_t x, y; };
struct uint1 { uint32_t x; };
struct uint2 { uint32_t x, y; };
struct float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
inline float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
inline float2 operator*(float2 a, float2 b) { return {a.x * b.x, a.y * b.y}; }
inline float2 operator/(float2 a, float2 b) { return {a.x / b.x, a.y / b.y}; }
inline float2 __bfloat1622float2(bfloat16x2_t v) { return {v.x, v.y}; }
inline bfloat16x2_t __float22bfloat162_rn(float2 v) { return {bfloat16_t(v.x), bfloat16_t(v.y)}; }

namespace cce {
struct dim3 { unsigned x; explicit dim3(unsigned count) : x(count) {} };
}
inline cce::dim3 threadIdx(0);
extern "C" { __attribute__((used)) int64_t block_idx; }

// The bytes of a core's own memory; a copy out of them, or a kernel that needs more, ends the process.
constexpr size_t UB_BYTES = 256 * 1024;
alignas(64) inline uint8_t ub[UB_BYTES];

enum pipe_t { PIPE_MTE2, PIPE_MTE3, PIPE_V, PIPE_S };
enum event_t : int {};
enum asc_load_l2_cache_mode : int {};
enum asc_store_l2_cache_mode : int {};
inline void asc_init() { memset(ub, 0xff, UB_BYTES); }
inline void asc_sync_notify(pipe_t, pipe_t, event_t) {}
inline void asc_sync_wait(pipe_t, pipe_t, event_t) {}

inline void copy_rows(uint8_t* to, const uint8_t* from, long rows, long bytes, long to_step, long from_step) {
  for (long row = 0; row < rows; ++row) memcpy(to + row * to_step, from + row * from_step, bytes);
}
inline void inside(const uint8_t* place, long rows, long bytes, long step) {
  if (place < ub || place + (rows ? (rows - 1) * step + bytes : 0) > ub + UB_BYTES) abort();
}
inline void asc_copy_gm2ub_align(uint8_t* to, uint8_t* from, long rows, long bytes, int, int, int,
                                 asc_load_l2_cache_mode, long from_step, long to_step) {
  inside(to, rows, bytes, to_step);
  copy_rows(to, from, rows, bytes, to_step, from_step);
}
inline void asc_copy_ub2gm_align(uint8_t* to, uint8_t* from, long rows, long bytes, asc_store_l2_cache_mode,
                                 long to_step, long from_step) {
  inside(from, rows, bytes, from_step);
  copy_rows(to, from, rows, bytes, to_step, from_step);
}

struct Thread {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 * 1024);
  bool done = false;
};
inline ucontext_t scheduler;
inline Thread* running;
inline std::function<void()> body;
inline void asc_syncthreads() { swapcontext(&running->context, &scheduler); }
inline void run_thread() {
  body();
  running->done = true;
  swapcontext(&running->context, &scheduler);
}
template <auto function, typename... Values>
void asc_vf_call(cce::dim3 threads, Values... values) {
  static std::vector<Thread> all(1024);
  body = [=] { function(values...); };
  for (unsigned at = 0; at < threads.x; ++at) {
    getcontext(&all[at].context);
    all[at].context.uc_stack.ss_sp = all[at].stack.data();
    all[at].context.uc_stack.ss_size = all[at].stack.size();
    all[at].done = false;
    makecontext(&all[at].context, run_thread, 0);
  }
  for (bool open = true; open;) {
    open = false;
    for (unsigned at = 0; at < threads.x; ++at) {
      if (all[at].done) continue;
      running = &all[at];
      threadIdx.x = at;
      swapcontext(&scheduler, &running->context);
      open = open || !running->done;
    }
  }
}
