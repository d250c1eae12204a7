// Loads, stores and atomics of global memory, buffers and private memory; loads through scalars.
#include "memory.h"

namespace {

HANDLER(memory_load) {
  check_address(w, i);
  const u32 bytes = access_bytes(i), count = i.parameter[kCount];
  const u64 operation = w.memory.issue();
  const u64 flat = i.parameter[kSpace] == kFlat ? w.lds.issue() : 0;
  Lanes base;  // the address may be in a register that the load writes
  if (i.source[0].kind == kVector) memcpy(base.value, w.vector[i.source[0].number], sizeof base.value);
  std::vector<const char*> places(w.lanes, nullptr);
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (w.exec >> lane & 1) places[lane] = place_of(w, i, lane, bytes, false);
  }
  for (u32 k = 0; k < count; k++) {
    const u32 number = i.destination + k;
    await_vector(w, i, number);
    w.defined[number] |= w.exec;
    w.from_memory[number] = operation;
    w.from_lds[number] = flat;
    for (u32 lane = 0; lane < w.lanes; lane++) {
      if (!(w.exec >> lane & 1)) continue;
      u32 value = 0;
      const u32 size = i.parameter[kBytes];
      if (places[lane]) memcpy(&value, places[lane] + 4 * k, size);
      if (size == 4) w.vector[number][lane] = value;
      else put_small(i, value, &w.vector[number][lane]);
    }
  }
}

HANDLER(memory_store) {
  check_address(w, i);
  const u32 bytes = access_bytes(i), first = i.source[3].number;
  if (w.family == kCdna) w.memory.issue();  // RDNA counts stores apart
  check_data(w, i, first, i.parameter[kCount]);
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    char* to = place_of(w, i, lane, bytes, true);
    if (!to) continue;
    if (i.parameter[kBytes] == 4) {
      for (u32 k = 0; k < i.parameter[kCount]; k++) memcpy(to + 4 * k, &w.vector[first + k][lane], 4);
    } else {
      const u32 value = i.parameter[kPart] == 2 ? w.vector[first][lane] >> 16 : w.vector[first][lane];
      memcpy(to, &value, i.parameter[kBytes]);
    }
  }
}

static u32 combined(u32 how, u32 old, u32 value) {
  const i32 signed_old = static_cast<i32>(old), signed_value = static_cast<i32>(value);
  switch (how) {
    case 0: return old + value;
    case 1: return bits(f32(old) + f32(value));
    case 2: return value;
    case 3: return signed_old > signed_value ? old : value;
    case 4: return old > value ? old : value;
    case 5: return signed_old < signed_value ? old : value;
    case 6: return old < value ? old : value;
    case 7: return old & value;
    case 8: return old | value;
    case 9: return old ^ value;
    default: return old - value;
  }
}

// target: what to do with the old value; clamp: the old value comes back.
HANDLER(memory_atomic) {
  check_address(w, i);
  const u32 first = i.source[3].number;
  check_data(w, i, first, 1);
  const bool returns = i.clamp;
  const u64 operation = returns || w.family == kCdna ? w.memory.issue() : 0;
  for (u32 lane = 0; lane < w.lanes; lane++) {
    if (!(w.exec >> lane & 1)) continue;
    char* place = place_of(w, i, lane, 4, true);
    if (!place) continue;
    u32 old;
    memcpy(&old, place, 4);
    const u32 value = combined(i.target, old, w.vector[first][lane]);
    memcpy(place, &value, 4);
    if (returns) w.vector[i.destination][lane] = old;
  }
  if (!returns) return;
  w.defined[i.destination] |= w.exec;
  w.from_memory[i.destination] = operation;
}

HANDLER(scalar_load) {
  const u32 base = i.source[0].number, count = i.parameter[kCount];
  await_scalar(w, i, base);
  await_scalar(w, i, base + 1);
  u64 address = get_scalar(w, base) | static_cast<u64>(get_scalar(w, base + 1)) << 32;
  address += static_cast<i64>(i.immediate);
  if (i.source[1].kind == kScalar) address += source32(w, i, 1);
  const u64 operation = (w.family == kRdna4 ? w.scalars : w.lds).issue();
  const char* from = global_place(w, i, address & ~3ull, 4 * count, false);
  for (u32 k = 0; k < count; k++) {
    u32 value = 0;
    if (from) memcpy(&value, from + 4 * k, 4);
    set_scalar(w, i.scalar_destination + k, value);
    if (i.scalar_destination + k < 128) w.from_scalars[i.scalar_destination + k] = operation;
  }
}

}  // namespace
