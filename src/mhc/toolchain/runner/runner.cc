// Runs kernels of a CPU that this machine does not have: the program is linked statically, and an emulator runs it.
//
// It reads calls from its standard input, and writes the bytes of every tensor to its standard output, inputs too.
// All numbers are int64 in the order of bytes that both CPUs have (little-endian). The calls are a count, then for
// each the place of the kernel and the number of its operands; an operand is its kind, then for a number the number,
// and for a tensor code, bits, number of dimensions, shape and bytes.
//
// Before and behind each tensor are bytes that nobody may write. They are looked at when the calls are done.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operand.h"

static const size_t LEAST = 4096;  // bytes of a guard; a token's values are a guard at least
static const int FAILED = 1, OVERRUN = 3, BROKEN = 4;

struct guarded {
  unsigned char *whole;
  size_t guard, size;
};

static void end(int status, const char *text, int64_t number) {
  fprintf(stderr, "%s %lld\n", text, (long long)number);
  exit(status);
}

static void take(void *to, size_t size) {
  if (size && fread(to, 1, size, stdin) != size) end(BROKEN, "the calls end too early; bytes lacking:", size);
}

static int64_t taken() {
  int64_t number;
  take(&number, sizeof number);
  return number;
}

static unsigned char byte_of(size_t place) { return (unsigned char)(place * 151 + (place >> 8) * 29 + 73); }

static guarded with_guards(size_t size, size_t row) {
  size_t guard = (row > LEAST ? row : LEAST) + 63 & ~(size_t)63;
  size_t whole = size + 2 * guard + 63 & ~(size_t)63;
  guarded memory = {(unsigned char *)aligned_alloc(64, whole), guard, size};
  if (!memory.whole) end(BROKEN, "no memory for bytes:", whole);
  for (size_t i = 0; i < guard; ++i) {
    memory.whole[i] = byte_of(i);
    memory.whole[guard + size + i] = byte_of(guard + i);
  }
  return memory;
}

static bool is_intact(const guarded &memory) {
  for (size_t i = 0; i < memory.guard; ++i)
    if (memory.whole[i] != byte_of(i) || memory.whole[memory.guard + memory.size + i] != byte_of(memory.guard + i))
      return false;
  return true;
}

static guarded tensor(mhc_operand *operand) {
  operand->code = taken();
  operand->bits = taken();
  operand->dims = taken();
  if (operand->dims < 1 || operand->dims > 4) end(BROKEN, "this number of dimensions is not supported:", operand->dims);
  int64_t stride = 1;
  for (int64_t k = 0; k < operand->dims; ++k) operand->shape[k] = taken();
  for (int64_t k = operand->dims; k-- > 0; stride *= operand->shape[k]) operand->strides[k] = stride;
  size_t size = stride * operand->bits / 8;
  guarded memory = with_guards(size, operand->shape[0] > 0 ? size / operand->shape[0] : 0);
  operand->data = memory.whole + memory.guard;
  take(operand->data, size);
  return memory;
}

static void run() {
  int64_t kernel = taken(), count = taken();
  mhc_operand *operands = (mhc_operand *)calloc(count, sizeof *operands);
  guarded *memory = (guarded *)calloc(count, sizeof *memory);
  for (int64_t i = 0; i < count; ++i) {
    operands[i].kind = (mhc_kind)taken();
    if (operands[i].kind == MHC_NUMBER) operands[i].number = taken();
    if (operands[i].kind == MHC_TENSOR) memory[i] = tensor(&operands[i]);
  }
  if (int status = mhc_call(kernel, operands, count)) end(FAILED, "the kernel returned", status);
  for (int64_t i = 0; i < count; ++i)
    if (memory[i].whole && !is_intact(memory[i])) end(OVERRUN, "the kernel wrote past an end of its operand", i);
  for (int64_t i = 0; i < count; ++i)
    if (memory[i].whole && fwrite(operands[i].data, 1, memory[i].size, stdout) != memory[i].size)
      end(BROKEN, "the results cannot be written; operand", i);
  for (int64_t i = 0; i < count; ++i) free(memory[i].whole);
  free(memory);
  free(operands);
}

int main() {
  for (int64_t calls = taken(); calls > 0; --calls) run();
  return fflush(stdout) ? BROKEN : 0;
}
