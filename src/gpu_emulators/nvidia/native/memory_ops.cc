// Loads, stores and atomics of all spaces.
#include "memory.h"

namespace memory_ops {

u64 extended(u64 value, const Record& i) {
  if (!i.parameter[kSigned]) return value;
  const u32 unused = 64 - 8 * static_cast<u32>(i.parameter[kBytes]);
  return static_cast<u64>(static_cast<i64>(value << unused) >> unused);
}

// Read what a lane's registers get, and return the bytes that nobody wrote.
u64 read_lane(Wave& w, const Record& i, u64 address, u32 lane, char* to, u32 size) {
  const u32 space = space_of(address, static_cast<u32>(i.parameter[kSpace]));
  address = inside(address, space);
  memset(to, 0, size);
  if (!is_aligned(w, i, address, size)) return 0;
  if (space == kShared) {
    const char* from = shared_place(w, i, address, size);
    if (!from) return 0;
    u64 unknown = 0;
    for (u32 k = 0; k < size; k++) {
      shared_read(w, i, address + k, w.number, w.clocks[w.number]);
      unknown |= static_cast<u64>(!w.group->bytes[address + k].defined) << k;
    }
    memcpy(to, from, size);
    return unknown;
  }
  if (space == kLocal) {
    if (const char* from = local_place(w, i, lane, address, size, false)) memcpy(to, from, size);
    return 0;
  }
  const char* from = global_place(w, i, address, size, false);
  if (!from) return 0;
  memcpy(to, from, size);
  if (!i.parameter[kOrdered]) return global_read(w, i, from, address, size) ? 0 : ~0ull;
  global_write(w, i, from, address, from, size, true);
  return 0;
}

HANDLER(ld) {
  check_defined(w, i, origin(w, i, 0), kInAddress);
  const u32 bytes = static_cast<u32>(i.parameter[kBytes]), size = bytes * i.to;
  char data[kLanes][64];
  u64 unknown[kLanes] = {};
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    unknown[lane] = read_lane(w, i, address_of(w, i, lane), lane, data[lane], size);
  }
  for (u32 k = 0; k < i.to; k++) {
    each(w, i, [&](u32 lane) {
      u64 value = 0;
      memcpy(&value, data[lane] + k * bytes, bytes);
      return extended(value, i);
    }, k);
    u32 of_part[kLanes];
    for (u32 lane = 0; lane < kLanes; lane++) of_part[lane] = unknown[lane] >> k * bytes & ((1u << bytes) - 1);
    know(w, target(w, i, k), of_part);
  }
}

// Several lanes may write one byte of shared memory. What counts for a race is what the whole instruction leaves there.
struct Touched {
  u64 at;
  char before;
};
thread_local std::vector<Touched> touched;

void keep_shared(Wave& w, const Record& i, u64 at, const char* value, u32 size, u64 unknown) {
  char* to = shared_place(w, i, at, size);
  if (!to) return;
  Group& g = *w.group;
  for (u32 k = 0; k < size; k++) {
    Byte& byte = g.bytes[at + k];
    if (byte.touched != g.writes) touched.push_back({at + k, to[k]});
    byte.touched = g.writes, byte.defined = !(unknown >> k & 1);
  }
  memcpy(to, value, size);
}

void begin_writes(Wave& w) { w.group->writes++, touched.clear(); }

void end_writes(Wave& w, const Record& i) {
  for (const Touched& one : touched) {
    shared_write(w, i, one.at, w.number, w.clocks[w.number], w.group->shared[one.at] == one.before);
  }
}

HANDLER(st) {
  check_defined(w, i, origin(w, i, 0), kInAddress);
  const u32 bytes = static_cast<u32>(i.parameter[kBytes]), count = i.from - 1, size = bytes * count;
  char values[kLanes][64], *places[kLanes] = {};
  begin_writes(w);
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    char* data = values[lane];
    u64 unknown = 0;
    for (u32 k = 0; k < count; k++) {
      memcpy(data + k * bytes, &w.lanes(origin(w, i, k + 1))[lane], bytes);
      unknown |= static_cast<u64>(unknown_in(w, origin(w, i, k + 1), lane) & ((1u << bytes) - 1)) << k * bytes;
    }
    u64 address = address_of(w, i, lane);
    const u32 space = space_of(address, static_cast<u32>(i.parameter[kSpace]));
    address = inside(address, space);
    if (!is_aligned(w, i, address, size)) continue;
    if (space == kShared) {
      keep_shared(w, i, address, data, size, unknown);
    } else if (space == kLocal) {
      if (char* to = local_place(w, i, lane, address, size, true)) memcpy(to, data, size);
    } else if (char* to = places[lane] = global_place(w, i, address, size, true)) {
      for (u32 k = 0; unknown && k < count; k++) {
        if (unknown >> k * bytes & ((1u << bytes) - 1)) check_defined(w, i, origin(w, i, k + 1), kAsData);
      }
      global_write(w, i, to, address, data, size, i.parameter[kOrdered]);
      memcpy(to, data, size);
    }
  }
  for (u32 lane = 0; lane < kLanes; lane++) {  // another lane has stored another value there
    if (places[lane] && memcmp(places[lane], values[lane], size)) return report(w, i, kSamePlace, address_of(w, i, lane), lane);
  }
  end_writes(w, i);
}

enum Atomic : u32 { kAdd, kMin, kMax, kExchange, kCompare, kAnd, kOr, kXor, kIncrement, kDecrement };

template <class T>
u64 changed(u32 operation, u64 before, u64 given, u64 other) {
  using N = Number<T>;
  const N a = Format<T>::get(before), b = Format<T>::get(given);
  switch (operation) {
    case kAdd: return Format<T>::put(static_cast<N>(a + b));
    case kMin: return Format<T>::put(b < a ? b : a);
    case kMax: return Format<T>::put(b > a ? b : a);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (operation) {
      case kCompare: return a == b ? other : before;
      case kAnd: return before & given;
      case kOr: return before | given;
      case kXor: return before ^ given;
      case kIncrement: return static_cast<u64>(a >= b ? T(0) : static_cast<T>(a + 1));
      case kDecrement: return static_cast<u64>(a == T(0) || a > b ? b : static_cast<T>(a - 1));
      default: break;
    }
  }
  return given;
}

u64 changed_pair(u32 operation, u64 before, u64 given, bool is_bf16) {
  u64 result = 0;
  for (u32 k = 0; k < 32; k += 16) {
    const u64 one = is_bf16 ? changed<Bf16>(operation, before >> k, given >> k & 0xffff, 0)
                            : changed<F16>(operation, before >> k, given >> k & 0xffff, 0);
    result |= (one & 0xffff) << k;
  }
  return result;
}

// The types of an atomic, in the order of the translation's table.
u64 after(u32 type, u32 operation, u64 before, u64 given, u64 other) {
  switch (type) {
    case 0: return changed<u32>(operation, before, given, other);
    case 1: return changed<i32>(operation, before, given, other);
    case 2: return changed<u64>(operation, before, given, other);
    case 3: return changed<i64>(operation, before, given, other);
    case 4: return changed<float>(operation, before, given, other);
    case 5: return changed<double>(operation, before, given, other);
    case 6: return changed<F16>(operation, before, given, other);
    case 7: return changed<Bf16>(operation, before, given, other);
    case 8: return changed_pair(operation, before, given, false);
    case 9: return changed_pair(operation, before, given, true);
    default: return changed<u16>(operation, before, given, other);
  }
}

// atom and red. Parameters 3 to 5 are the number of elements, which lie side by side, the operation and the type.
HANDLER(atom) {
  for (u32 k = 0; k < i.from; k++) check_defined(w, i, origin(w, i, k), k ? kAsData : kInAddress);
  const u32 bytes = static_cast<u32>(i.parameter[kBytes]), type = static_cast<u32>(i.parameter[5]);
  const u32 count = static_cast<u32>(i.parameter[3]), operation = static_cast<u32>(i.parameter[4]);
  u64 old[8][kLanes] = {};
  begin_writes(w);
  for (u32 lane = 0; lane < kLanes; lane++) {
    if (!(w.mask >> lane & 1)) continue;
    u64 address = address_of(w, i, lane);
    const u32 space = space_of(address, static_cast<u32>(i.parameter[kSpace])), size = bytes * count;
    address = inside(address, space);
    if (!is_aligned(w, i, address, size)) continue;
    char* place = space == kShared ? shared_place(w, i, address, size) : global_place(w, i, address, size, true);
    for (u32 k = 0; place && k < count; k++, place += bytes, address += bytes) {
      memcpy(&old[k][lane], place, bytes);
      const u64 given = w.lanes(origin(w, i, 1 + k))[lane], other = operation == kCompare ? w.lanes(origin(w, i, 2))[lane] : 0;
      const u64 result = after(type, operation, old[k][lane], given, other);
      if (space != kShared) global_write(w, i, place, address, &result, bytes, true);
      memcpy(place, &result, bytes);  // atomics of warps on shared memory do not race with each other
    }
  }
  for (u32 k = 0; k < i.to; k++) {
    each(w, i, [&](u32 lane) { return old[k][lane]; }, k);
    define(w, target(w, i, k));
  }
}

HANDLER(ld_param) {
  for (u32 k = 0; k < i.to; k++) {
    u64 value = 0;
    memcpy(&value, reinterpret_cast<const char*>(i.parameter[1]) + k * i.parameter[kBytes], i.parameter[kBytes]);
    each(w, i, [&](u32) { return extended(value, i); }, k);
    define(w, target(w, i, k));
  }
}

HANDLER(isspacep) {
  const u64* a = w.lanes(origin(w, i, 0));
  u32 result = 0;
  for (u32 lane = 0; lane < kLanes; lane++) result |= static_cast<u32>(space_of(a[lane], kGeneric) == i.parameter[0]) << lane;
  set_bits(w, target(w, i), result);
}

// cvta: parameter 0 is the window of the space, 1 says that the generic address is the source.
HANDLER(cvta) {
  const u64* a = w.lanes(origin(w, i, 0));
  const u64 window = static_cast<u64>(i.parameter[0]);
  each(w, i, [&](u32 lane) { return i.parameter[1] ? a[lane] - window : a[lane] + window; });
}

HANDLER(prefetch) {}

}  // namespace memory_ops
