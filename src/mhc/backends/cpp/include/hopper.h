// What a kernel says to NVIDIA's sm_90 in its own instructions: barriers in shared memory, copies by the tensor map,
// products of tensor cores, and loads and stores that other blocks see while the kernel runs.
#pragma once

// A tensor map, as cuTensorMapEncodeTiled writes it.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return unsigned(__cvta_generic_to_shared(pointer));
}

// A barrier in shared memory counts arrivals, and bytes that a copy still has to bring. Its phases alternate: wait for
// phase k with the parity k % 2.
__device__ __forceinline__ void init_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Let the copy engine and the other blocks see which barriers this thread has made ready.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Tell the barrier of the same place in another block of the cluster.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// All threads of the cluster's blocks arrive before one that waits goes on. Barriers that were fenced are seen then.
__device__ __forceinline__ void arrive_at_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void leave_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}

__device__ __forceinline__ int grid_size() { return int(gridDim.x); }

// The address, for the cluster, of a place in the shared memory of one of its blocks.
__device__ __forceinline__ unsigned address_in(unsigned address, int rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

// Write to a block of the cluster; the bytes count for a barrier of that block.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, const float4& value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
      "r"(__float_as_uint(value.w)), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void send(unsigned to, unsigned barrier, float value) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}

// Copy 16 bytes to shared memory.
__device__ __forceinline__ void copy_quad(unsigned to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// What this thread read or wrote in shared memory comes before boxes that are copied there when others know of it.
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Tell the barrier when all that this thread has copied in this way is there.
__device__ __forceinline__ void arrive_when_copied(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Copy the box of a tensor map that begins at (column, row, layer) to shared memory. Its bytes count for the barrier. With
// LEAVES_FIRST they are the first to leave the L2 cache.
template <bool LEAVES_FIRST>
__device__ __forceinline__ void copy_box(unsigned to, const TensorMap* map, int column, int row, int layer,
                                         unsigned barrier) {
  if constexpr (LEAVES_FIRST) {
    asm volatile(
        "{\n"
        ".reg .b64 policy;\n"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4}], [%5], policy;\n"
        "}" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(layer), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(layer), "r"(barrier)
        : "memory");
  }
}

// Four 8 x 8 matrices of 16 bits: a lane gives the address of one row, and gets two neighbours of each matrix.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// Two of them: the first 16 lanes give the addresses.
__device__ __forceinline__ void load_matrices(unsigned (&to)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}

// The same, each matrix transposed: a lane gets two of a column that lie below each other.
__device__ __forceinline__ void load_transposed(unsigned (&to)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// The opposite of `load_matrices`.
__device__ __forceinline__ void store_matrices(unsigned address, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// sums[16 x 8] += a[16 x 16] b[16 x 8] in bf16, by tensor cores, with sums in fp32.
__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// sums[16 x 8] += a[16 x 24] b[24 x 8] in fp16; `last` is the last third of a.
__device__ __forceinline__ void multiply_fp16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&last)[2],
                                              const unsigned (&b)[3]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(last[0]), "r"(last[1]), "r"(b[2]));
}

// sums[16 x 8] += a[16 x 8] b[8 x 8] in TF32, of which the last 13 bits do not count. The column that a pair of bf16 had
// first is in a[0] and a[1], and the second one in a[2] and a[3].
__device__ __forceinline__ void multiply_tf32(float (&sums)[4], const unsigned (&a)[4], const float (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// Two numbers in bf16, the first one in the lower half.
__device__ __forceinline__ unsigned pair_of(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Two numbers in fp16, the first one in the lower half.
__device__ __forceinline__ unsigned pair_of_fp16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Copy shared memory to the box of a tensor map. What threads wrote there comes before `fence_copies`.
__device__ __forceinline__ void store_box(const TensorMap* map, int column, int row, int layer, unsigned from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
               "r"(column), "r"(row), "r"(layer), "r"(from)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Wait until all boxes that this thread has stored are read from shared memory.
__device__ __forceinline__ void wait_until_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Wait until they are in memory.
__device__ __forceinline__ void wait_until_stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// The largest value of a warp's lanes.
__device__ __forceinline__ int largest_of_warp(int value) { return __reduce_max_sync(0xffffffffu, value); }

// Bring what is not in shared memory yet nearer: to the L2 cache. What somebody writes later is written there too, so this
// may come before `wait_for_launch_before`.

// The 128 bytes around an address.
__device__ __forceinline__ void prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// A box, as `copy_box` copies it.
__device__ __forceinline__ void prefetch_box(const TensorMap* map, int column, int row, int layer) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(column), "r"(row),
               "r"(layer)
               : "memory");
}

// What the copy engine has to know before its first copy.
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
