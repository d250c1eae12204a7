/* A double of the drivers in a simulator: memory is the process's own, and a kernel does what its name says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char loaded[64];
static unsigned permitted = 48 << 10;
static int begun, of_cuda;

int cuInit(unsigned flags) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return 0; }
int cuCtxSetCurrent(void *context) { return begun = of_cuda = 1, 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) { return *address = (uint64_t)aligned_alloc(256, size + 255 & ~255ul), 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return memcpy((void *)to, from, size), 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return memcpy(to, (void *)from, size), 0; }
int cuModuleLoadData(void **module, const char *image) { return !begun; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return strncpy(loaded, name, 63), strcmp(name, "absent") ? 0 : 500;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return permitted = value, attribute == 8 ? 0 : 1; }
int cuCtxSynchronize(void) { return 0; }

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned u, unsigned v,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  const float *from = *(float **)arguments[0];
  float *to = *(float **)arguments[1];
  int32_t size = *(int32_t *)arguments[2];
  if (of_cuda && shared > permitted) return 1;
  if (!strcmp(loaded, "racing") && of_cuda) {
    fprintf(stderr, "[vgpu] cuLaunchKernel: VirtualGPU error [data-race]: shared memory word 4 is written by warp 1\n");
    fprintf(stderr, "  in kernel 'racing', PTX line 30\n");
    return 719;
  }
  if (!strcmp(loaded, "racing"))
    fprintf(stderr, "RACE kernel=racing type=LDS access=read wave=0\nRace on LDS byte 508\nEND_RACE\nbehind\n");
  if (!strcmp(loaded, "refused")) {
    fprintf(stderr, of_cuda ? "[vgpu] cuLaunchKernel: VirtualGPU error [unsupported-ptx]: tcgen05.mma\n" : "error: v_new\n");
    return of_cuda ? 0 : 1;
  }
  if (!strcmp(loaded, "dies")) abort();
  for (int32_t i = 0; i < size; ++i) to[i] = 2 * from[i];
  if (!strcmp(loaded, "placed")) to[0] = (uint64_t)from % 16, to[1] = x * 100 + threads;
  return 0;
}

int hipInit(unsigned flags) { return 0; }
int hipSetDevice(int device) { return begun = 1, 0; }
int hipMalloc(void **address, size_t size) { return cuMemAlloc_v2((uint64_t *)address, size); }
int hipMemcpy(void *to, const void *from, size_t size, int kind) { return memcpy(to, from, size), kind != 1 && kind != 2; }
int hipModuleLoadData(void **module, const char *image) { return !begun; }
int hipModuleGetFunction(void **function, void *module, const char *name) { return cuModuleGetFunction(function, module, name); }
int hipDeviceSynchronize(void) { return 0; }
int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned u, unsigned v,
                          unsigned shared, void *stream, void **arguments, void **extra) {
  return cuLaunchKernel(function, x, y, z, threads, u, v, shared, stream, arguments, extra);
}
