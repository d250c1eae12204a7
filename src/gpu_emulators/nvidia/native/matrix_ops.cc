// mma.sync, wgmma, and the loads and stores of their operands.
#include "matrices.h"

namespace matrix_ops {

enum ProductParameter { kDepth, kLeft, kRight, kSumKind, kColumns, kForm };
constexpr u32 kSaturates = kColumns;  // of mma, which has eight columns

thread_local Product product;

// mma.sync.m16n8k*: parameters: the depth, the types of both factors, and the type of the sum.
HANDLER(mma) {
  const u32 depth = static_cast<u32>(i.parameter[kDepth]), left = static_cast<u32>(i.parameter[kLeft]);
  const u32 kind = static_cast<u32>(i.parameter[kSumKind]);
  const u32 of_left = 16 * depth * bytes_of(left) / 128, of_right = of_left / 2;
  if (w.mask != ~0u) report(w, i, kDivergent);
  product.columns = 8, product.depth = depth;
  bool defined = get_left(w, i, product, 0, of_left, left);
  defined &= get_right(w, i, product, of_left, of_right, static_cast<u32>(i.parameter[kRight]));
  defined &= get_sum(w, i, product, i.to + of_left + of_right, i.to, kind) == ~0u;
  product.multiply();
  for (u32 row = 0; i.parameter[kSaturates] && row < 16; row++) {
    for (u32 column = 0; column < 8; column++) {
      double& sum = product.c[row][column];
      sum = std::clamp<double>(sum, INT32_MIN, INT32_MAX);
    }
  }
  put_sum(w, i, product, kind, defined);
}

// m8n8k4, and m16n8k4 to m16n8k16: parameters: the depth, and how many blocks of eight rows.
HANDLER(mma_f64) {
  const u32 depth = static_cast<u32>(i.parameter[0]), blocks = static_cast<u32>(i.parameter[1]);
  const u32 of_left = blocks * depth / 4, of_right = depth / 4;
  double sums[4][kLanes];
  u32 defined = ~0u;
  for (u32 k = 0; k < i.from; k++) defined &= w.defined[origin(w, i, k)];
  const auto element = [&](u32 number, u32 line, u32 k) { return f64(w.lanes(origin(w, i, number))[line * 4 + k % 4]); };
  for (u32 part = 0; part < i.to; part++) {
    for (u32 lane = 0; lane < kLanes; lane++) {
      double sum = f64(w.lanes(origin(w, i, of_left + of_right + part))[lane]);
      for (u32 k = 0; k < depth; k++) {
        const double left = element(k / 4 * blocks + part / 2, lane / 4, k);
        sum = fma(left, element(of_left + k / 4, 2 * (lane % 4) + part % 2, k), sum);
      }
      sums[part][lane] = sum;
    }
  }
  for (u32 part = 0; part < i.to; part++) {
    each(w, i, [&](u32 lane) { return bits64(sums[part][lane]); }, part);
    define(w, target(w, i, part), defined == ~0u ? ~0u : 0);
  }
}

// ldmatrix: lane l has the address of row l; register r of a lane has two elements of matrix r. Parameter 3: .trans
HANDLER(ldmatrix) {
  const u32 source = origin(w, i, 0), rows = 8 * i.to;
  if (w.mask != ~0u) report(w, i, kDivergent);
  u16 element[4][8][8];
  u32 defined[4] = {};
  bool known[4][8];
  for (u32 row = 0; row < rows; row++) {
    if (!(w.defined[source] >> row & 1)) check_defined(w, i, source, kInAddress);
    const u64 at = inside(address_of(w, i, row), kShared);
    memset(element[row / 8][row % 8], 0, 16);
    known[row / 8][row % 8] = true;
    if (!is_aligned(w, i, at, 16)) continue;
    const char* from = shared_place(w, i, at, 16);
    if (!from) continue;
    for (u32 k = 0; k < 16; k++) {
      shared_read(w, i, at + k, w.number, w.clocks[w.number]);
      known[row / 8][row % 8] &= w.group->bytes[at + k].defined;
    }
    memcpy(element[row / 8][row % 8], from, 16);
  }
  for (u32 r = 0; r < i.to; r++) {
    each(w, i, [&](u32 lane) -> u64 {
      const u32 x = lane / 4, y = 2 * (lane % 4);
      const auto& m = element[r];
      return i.parameter[3] ? m[y][x] | static_cast<u32>(m[y + 1][x]) << 16 : m[x][y] | static_cast<u32>(m[x][y + 1]) << 16;
    }, r);
    for (u32 lane = 0; lane < kLanes; lane++) {
      const bool is_known = i.parameter[3] ? known[r][2 * (lane % 4)] && known[r][2 * (lane % 4) + 1] : known[r][lane / 4];
      defined[r] |= static_cast<u32>(is_known) << lane;
    }
    define(w, target(w, i, r), defined[r]);
  }
}

HANDLER(stmatrix) {
  const u32 source = origin(w, i, 0), count = i.from - 1;
  if (w.mask != ~0u) report(w, i, kDivergent);
  for (u32 row = 0; row < 8 * count; row++) {
    if (!(w.defined[source] >> row & 1)) check_defined(w, i, source, kInAddress);
    const u64 at = inside(address_of(w, i, row), kShared);
    if (!is_aligned(w, i, at, 16)) continue;
    char* to = shared_place(w, i, at, 16);
    if (!to) continue;
    const u32 number = origin(w, i, 1 + row / 8);
    for (u32 column = 0; column < 8; column++) {
      const u32 x = i.parameter[3] ? column : row % 8, y = i.parameter[3] ? row % 8 : column;
      const u32 lane = 4 * x + y / 2;
      const u16 value = static_cast<u16>(w.lanes(number)[lane] >> 16 * (y % 2));
      for (u32 k = 0; k < 2; k++) {
        const u64 place = at + 2 * column + k;
        const char byte = static_cast<char>(value >> 8 * k);
        shared_write(w, i, place, w.number, w.clocks[w.number], to[2 * column + k] == byte);
        w.group->bytes[place].defined = w.defined[number] >> lane & 1;
        to[2 * column + k] = byte;
      }
    }
  }
}

// What a descriptor of a matrix in shared memory says.
struct Layout {
  u64 start, leading, stride;
  u32 width;  // bytes of a row that are swizzled together; 16 where nothing is

  explicit Layout(u64 bits)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
        width(bits >> 62 == 1 ? 128 : bits >> 62 == 2 ? 64 : bits >> 62 == 3 ? 32 : 16) {}

  u64 swizzled(u64 at) const { return at ^ (at >> 7 & (width / 16 - 1)) << 4; }

  // The place of an element: `line` in the direction of rows or columns, `k` in the direction of the sum.
  u64 at(u32 line, u32 k, u32 size, bool is_transposed) const {
    if (is_transposed) {
      const u64 along = static_cast<u64>(line) * size, next = along / width;
      const u64 far = width == 16 ? next * stride + k / 8 * leading : next * leading + k / 8 * stride;
      return swizzled(start + far + along % width + static_cast<u64>(k % 8) * width);
    }
    const u64 along = static_cast<u64>(k) * size;
    const u64 column = width == 16 ? along / 16 * leading + along % 16 : along;
    return swizzled(start + column + static_cast<u64>(line % 8) * width + line / 8 * stride);
  }
};

u32 shared_element(Wave& w, const Record& i, u64 at, u32 size, bool* defined) {
  const char* from = shared_place(w, i, at, size);
  if (!from) return 0;
  shared_read(w, i, at, products_of(w), w.products.count);
  *defined &= w.group->bytes[at].defined;
  u32 bits = 0;
  memcpy(&bits, from, size);
  return bits;
}

u64 uniform(Wave& w, const Record& i, u32 number) {
  check_defined(w, i, number, kInAddress);
  return w.lanes(number)[__builtin_ctz(w.mask)];
}

// wgmma.mma_async: this warp's 16 rows of the 64. Sources: the left factor (a descriptor, or 4 registers), the descriptor
// of the right one, whether the sum is added to. Of the form, bits: A is in registers, A and B are transposed, negated.
HANDLER(wgmma) {
  const u32 form = static_cast<u32>(i.parameter[kForm]), depth = static_cast<u32>(i.parameter[kDepth]);
  const u32 left = static_cast<u32>(i.parameter[kLeft]), right = static_cast<u32>(i.parameter[kRight]);
  const u32 kind = static_cast<u32>(i.parameter[kSumKind]), of_left = form & 1 ? 4 : 1;
  if (w.mask != ~0u) report(w, i, kDivergent);
  w.products.count++;
  product.columns = static_cast<u32>(i.parameter[kColumns]), product.depth = depth;
  bool defined = true;
  if (form & 1) {
    defined = get_left(w, i, product, 0, 4, left);
  } else {
    const Layout layout(uniform(w, i, origin(w, i, 0)));
    for (u32 row = 0; row < 16; row++) {
      for (u32 k = 0; k < depth; k++) {
        const u64 at = layout.at(w.number % 4 * 16 + row, k, bytes_of(left), form >> 1 & 1);
        product.a[row][k] = element(shared_element(w, i, at, bytes_of(left), &defined), left);
      }
    }
  }
  const Layout layout(uniform(w, i, origin(w, i, of_left)));
  for (u32 column = 0; column < product.columns; column++) {
    for (u32 k = 0; k < depth; k++) {
      const u64 at = layout.at(column, k, bytes_of(right), form >> 2 & 1);
      product.b[k][column] = element(shared_element(w, i, at, bytes_of(right), &defined), right);
    }
  }
  if ((form >> 3 & 1) != (form >> 4 & 1)) {
    for (auto& row : product.a) for (double& value : row) value = -value;
  }
  check_defined(w, i, origin(w, i, of_left + 1), kAsCondition);
  if (bits_of(w, origin(w, i, of_left + 1)) & 1) defined &= get_sum(w, i, product, 0, i.to, kind) == ~0u;
  else memset(product.c, 0, sizeof product.c);
  product.multiply();
  put_sum(w, i, product, kind, defined);
  for (u32 k = 0; k < i.to; k++) w.filled[target(w, i, k)] = w.products.count;
}

HANDLER(wgmma_commit) { w.products.commit(); }

HANDLER(wgmma_wait) {
  w.products_done = std::max(w.products_done, w.products.done_with(static_cast<u64>(i.parameter[0])));
  w.clocks[products_of(w)] = w.products_done;
}

}  // namespace matrix_ops
