// Calls a kernel in TVM's calling convention. TVM's runtime is not here: this is all that its CPU code asks of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

#include "operand.h"

extern "C" {

int MHC_KERNEL(void *, const TVMFFIAny *, int32_t, TVMFFIAny *);

// A loop over tokens is cut into as many tasks as there would be threads; here one runs after the other.
struct environment {
  void *barrier;
  int32_t tasks;
};
typedef int (*task)(int, environment *, void *);
static int launch(task run, void *closure, int tasks) {
  environment all = {nullptr, tasks > 0 ? tasks : 3};
  for (int32_t i = 0; i < all.tasks; ++i)
    if (int status = run(i, &all, closure)) return status;
  return 0;
}
static void *allocate(int, int, uint64_t size, int, int) {
  size_t whole = size + 63 & ~(uint64_t)63;
  void *memory = aligned_alloc(64, whole);
  return memory ? memset(memory, 255, whole) : nullptr;  // NaN, until the kernel writes
}
static int give_back(int, int, void *memory) {
  free(memory);
  return 0;
}

// TVM's code calls through these pointers, and has those that it needs.
extern void *__TVMBackendParallelLaunch __attribute__((weak));
extern void *__TVMBackendAllocWorkspace __attribute__((weak));
extern void *__TVMBackendFreeWorkspace __attribute__((weak));

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  fprintf(stderr, "%s: ", kind);
  for (int32_t i = 0; i < count; ++i)
    if (parts[i]) fputs(parts[i], stderr);
  fputc('\n', stderr);
}
}

int mhc_call(int64_t, mhc_operand *operands, int64_t count) {
  if (&__TVMBackendParallelLaunch) __TVMBackendParallelLaunch = (void *)launch;
  if (&__TVMBackendAllocWorkspace) __TVMBackendAllocWorkspace = (void *)allocate;
  if (&__TVMBackendFreeWorkspace) __TVMBackendFreeWorkspace = (void *)give_back;
  TVMFFIAny *values = (TVMFFIAny *)calloc(count, sizeof *values), result = {};
  DLTensor *tensors = (DLTensor *)calloc(count, sizeof *tensors);
  for (int64_t i = 0; i < count; ++i) {
    mhc_operand &given = operands[i];
    values[i].type_index = given.kind == MHC_NUMBER   ? kTVMFFIInt
                           : given.kind == MHC_TENSOR ? kTVMFFIDLTensorPtr
                                                      : kTVMFFINone;
    if (given.kind == MHC_NUMBER) values[i].v_int64 = given.number;
    if (given.kind != MHC_TENSOR) continue;
    DLDataType element = {(uint8_t)given.code, (uint8_t)given.bits, 1};
    tensors[i] = {given.data, {kDLCPU, 0}, (int32_t)given.dims, element, given.shape, given.strides, 0};
    values[i].v_ptr = &tensors[i];
  }
  int status = MHC_KERNEL(nullptr, values, (int32_t)count, &result);
  free(tensors);
  free(values);
  return status;
}
