// What Python gives and gets: ranges of memory, and findings. The emulator of PTX has the same.
#pragma once

#include "numbers.h"

struct Region {
  u64 base, size;  // as the kernel sees it
  char* memory;
  u32 writable;
};

struct Finding {
  u32 kind, record;
  u64 first, second;
  u32 wave, count;
};
