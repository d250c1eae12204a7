// What a kernel is called with: a tensor, a number, or nothing.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum mhc_kind : int64_t { MHC_NOTHING, MHC_NUMBER, MHC_TENSOR };

struct mhc_operand {
  mhc_kind kind;
  int64_t number;
  void *data;
  int64_t code, bits;  // of an element, as DLPack writes them
  int64_t dims;
  int64_t shape[4], strides[4];
};

// Calls the kernel of that place among those of the program; anything but zero is an error. Each toolchain has its own.
int mhc_call(int64_t kernel, mhc_operand *operands, int64_t count);
