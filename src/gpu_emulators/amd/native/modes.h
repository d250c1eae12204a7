// The register MODE: how a wave rounds, what it does with subnormal numbers, and with what is too large for 16 bits.
#pragma once

#include <immintrin.h>

#include "state.h"

constexpr u32 kModes = 0xff, kUsualModes = 0xf0;  // rounding, and which subnormal numbers are kept
constexpr u32 kKeepsOthers = 0xc0;                // subnormal numbers of fp16 and fp64

static inline void set_mode(Wave& w, u32 mode) {
  w.mode = mode;
  w.is_usual = (mode & (kModes | 1u << kOverflowBit)) == kUsualModes;
}

// The control word of this CPU's arithmetic for an instruction. Subnormal numbers of fp16 and fp64 are always kept.
static inline u32 control_of(u32 mode, u32 precision) {
  static const u32 rounding[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN, _MM_ROUND_TOWARD_ZERO};
  if (precision == kExact) return _MM_MASK_MASK;
  if (precision == kDouble) return _MM_MASK_MASK | rounding[mode >> 2 & 3];
  const u32 takes_zero = keeps_sources(mode) ? 0 : 0x40, gives_zero = keeps_results(mode) ? 0 : _MM_FLUSH_ZERO_ON;
  return _MM_MASK_MASK | rounding[mode & 3] | takes_zero | gives_zero;
}

static inline void perform(Wave& w, const Record& i) {
  if (w.is_usual) return i.handler(w, i);
  const u32 before = _mm_getcsr();
  _mm_setcsr(control_of(w.mode, i.precision));
  stays_finite = w.mode >> kOverflowBit & 1;
  i.handler(w, i);
  stays_finite = false;
  _mm_setcsr(before);
}
