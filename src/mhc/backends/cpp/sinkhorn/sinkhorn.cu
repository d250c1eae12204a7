// sinkhorn and its gradient. A lane has one row of a matrix and one column in registers, so that all sums are its own. A
// matrix has LANES lanes of a warp; lane i has in slot j what concerns lane i ^ j, and gets it by one shuffle. Lanes and
// slots beyond the rows are zero.
//
// Every iteration but the first scales rows and columns: the matrix is rows[i] * first[i][j] * columns[j], and a division
// by sums is one reciprocal for each line. The gradient of `first` needs no division at all.
//
// The compiler is given STREAMS.
#include "sums.h"

constexpr int LANES = STREAMS <= 1 ? 1 : STREAMS <= 2 ? 2 : STREAMS <= 4 ? 4 : STREAMS <= 8 ? 8 : 16;
constexpr int MATRICES = THREADS / LANES;  // of a block
constexpr int KEPT = 20;  // iterations whose scales the backward keeps at a time; of more the scales could overflow

struct Line {
  float of[LANES];
};

struct Matrix {
  Line row, column;
};

// Where a lane's row and column lie. A matrix beyond the last token repeats that one, and is not stored.
struct Place {
  long long first;
  int lane;
  bool is_stored;

  __device__ __forceinline__ explicit Place(long long tokens) {
    lane = thread_index() % LANES;
    const long long token = block_index() * MATRICES + thread_index() / LANES;
    is_stored = token < tokens;
    first = (is_stored ? token : tokens - 1) * STREAMS * STREAMS;
  }

  __device__ __forceinline__ bool is_real(int slot) const {
    return STREAMS == LANES || (lane < STREAMS && (lane ^ slot) < STREAMS);
  }

  // The element of a lane's row in a slot; beyond the last line it is that of the last line.
  __device__ __forceinline__ long long in_row(int slot) const { return first + line(lane) * STREAMS + line(lane ^ slot); }
  __device__ __forceinline__ long long in_column(int slot) const { return first + line(lane ^ slot) * STREAMS + line(lane); }

 private:
  __device__ __forceinline__ static int line(int lane) { return STREAMS == LANES || lane < STREAMS ? lane : STREAMS - 1; }
};

// What each lane of a matrix has.
__device__ __forceinline__ Line gather(float value) {
  Line line;
  for (int j = 0; j < LANES; ++j) line.of[j] = j == 0 ? value : MHC_SHUFFLE_XOR(value, j);
  return line;
}

// The columns of rows, or the rows of columns.
__device__ __forceinline__ Line transposed(const Line& lines) {
  Line line;
  for (int j = 0; j < LANES; ++j) line.of[j] = j == 0 ? lines.of[j] : MHC_SHUFFLE_XOR(lines.of[j], j);
  return line;
}

__device__ __forceinline__ Line load_row(const float* matrix, const Place& place) {
  Line row;
  for (int j = 0; j < LANES; ++j) row.of[j] = place.is_real(j) ? matrix[place.in_row(j)] : 0.0f;
  return row;
}

__device__ __forceinline__ void store_row(float* matrix, const Place& place, const Line& row) {
  if (!place.is_stored) return;
  for (int j = 0; j < LANES; ++j) {
    if (place.is_real(j)) matrix[place.in_row(j)] = row.of[j];
  }
}

__device__ __forceinline__ float sum_of(const Line& line) {
  float sum = line.of[0];
  for (int j = 1; j < LANES; ++j) sum += line.of[j];
  return sum;
}

__device__ __forceinline__ float sum_of_products(const Line& a, const Line& b) {
  float sum = a.of[0] * b.of[0];
  for (int j = 1; j < LANES; ++j) sum = MHC_FMA(a.of[j], b.of[j], sum);
  return sum;
}

// Scale each entry: `along` has one number for each slot, and `own` is the lane's.
__device__ __forceinline__ void scale(Line& line, const Line& along, float own, bool own_first) {
  for (int j = 0; j < LANES; ++j) {
    line.of[j] = own_first ? (line.of[j] * own) * along.of[j] : (line.of[j] * along.of[j]) * own;
  }
}

// The first iteration: its rows, the softmax over each column, and what the row was divided by.
struct First {
  Line row, columns;
  float divisor;
};

// In the form of the paper, each row is multiplied by a power of e that makes its largest entry 1 before it is divided:
// a row whose quotients would all be 0 keeps its proportions.
__device__ __forceinline__ First first_iteration(const float* logits, const Place& place, float eps, bool deepseek) {
  float largest = logits[place.in_column(0)];
  for (int j = 1; j < LANES; ++j) largest = larger(largest, logits[place.in_column(j)]);
  const Line largests = gather(largest);
  Line below, powers;
  for (int j = 0; j < LANES; ++j) {
    below.of[j] = logits[place.in_row(j)] - largests.of[j];
    powers.of[j] = place.is_real(j) ? exponential(below.of[j]) : 0.0f;
  }
  const Line sums = gather(sum_of(transposed(powers)));
  First first;
  for (int j = 0; j < LANES; ++j) first.columns.of[j] = place.is_real(j) ? Divisor(sums.of[j]).divide(powers.of[j]) : 0.0f;
  if (deepseek) {
    for (int j = 0; j < LANES; ++j) first.row.of[j] = first.columns.of[j] + (place.is_real(j) ? eps : 0.0f);
    first.divisor = sum_of(first.row) + eps;
  } else {
    float largest = below.of[0];
    for (int j = 1; j < LANES; ++j) largest = larger(largest, below.of[j]);
    for (int j = 0; j < LANES; ++j) {
      const float power = exponential(below.of[j] - largest);
      first.row.of[j] = place.is_real(j) ? Divisor(sums.of[j]).divide(power) : 0.0f;
    }
    first.divisor = sum_of(first.row);
  }
  const Divisor divisor(place.is_real(0) ? first.divisor : 1.0f);
  for (int j = 0; j < LANES; ++j) first.row.of[j] = divisor.divide(first.row.of[j]);
  return first;
}

// What rows and columns are multiplied by after some iterations, and the reciprocals of a lane's own two numbers.
struct Scales {
  Line rows, columns;
  float row = 1.0f, column = 1.0f;

  Scales() = default;
  __device__ __forceinline__ explicit Scales(const Place& place) {
    for (int j = 0; j < LANES; ++j) rows.of[j] = columns.of[j] = place.is_real(j) ? 1.0f : 0.0f;
  }

  // One iteration: divide by the sums of the columns, then by the sums of the rows. With the reciprocal of a scale so
  // far, eps beside the sum of scaled entries is eps times that beside the sum of the others.
  __device__ __forceinline__ void iterate(const Matrix& matrix, const Place& place, float eps) {
    column = MHC_FMA(eps, column, sum_of_products(matrix.column, rows));
    columns = gather(place.is_real(0) ? reciprocal(column) : 0.0f);
    row = MHC_FMA(eps, row, sum_of_products(matrix.row, columns));
    rows = gather(place.is_real(0) ? reciprocal(row) : 0.0f);
  }

  __device__ __forceinline__ void apply(Matrix& matrix) const {
    scale(matrix.row, columns, rows.of[0], true);
    scale(matrix.column, rows, columns.of[0], false);
  }
};

// The matrix after `count` more iterations.
__device__ __forceinline__ void iterate(Matrix& matrix, const Place& place, int count, float eps) {
  for (int left = count; left > 0; left -= KEPT) {
    Scales scales(place);
    for (int k = 0; k < (left < KEPT ? left : KEPT); ++k) scales.iterate(matrix, place, eps);
    scales.apply(matrix);
  }
}

// Go back over one division: `along` is of the lines that were divided, and `across` of the others, both gradient times
// entry. Each of the first has lost its sum, in proportion to the entries. A gradient alone would grow without bound where
// an entry is next to nothing.
__device__ __forceinline__ void undo(Line& along, Line& across, const Line& entries, const Line& entries_across,
                                     const Line& divided, const Line& others) {
  const Line lost = gather(sum_of(along) * divided.of[0]);
  for (int j = 0; j < LANES; ++j) {
    along.of[j] = MHC_FMA(-lost.of[0] * entries.of[j], others.of[j], along.of[j]);
    across.of[j] = MHC_FMA(-lost.of[j] * entries_across.of[j], others.of[0], across.of[j]);
  }
}

extern "C" __global__ void MHC_BOUNDS
    sinkhorn_forward(const float* logits, float* result, long long tokens, int iterations, float eps, int deepseek) {
  const Place place(tokens);
  wait_for_launch_before();
  let_next_launch_begin();
  Matrix matrix{first_iteration(logits, place, eps, deepseek).row, {}};
  matrix.column = transposed(matrix.row);
  iterate(matrix, place, iterations - 1, eps);
  store_row(result, place, matrix.row);
}

// Go back over KEPT iterations at a time. Each time, the iterations before them run again.
extern "C" __global__ void MHC_BOUNDS
    sinkhorn_backward(const float* logits, const float* grad_matrix, float* grad_logits, long long tokens,
                      int iterations, float eps, int deepseek) {
  const Place place(tokens);
  const First first = first_iteration(logits, place, eps, deepseek);
  Matrix products{load_row(grad_matrix, place), {}};  // the gradient, and from the last matrix on times its entries
  products.column = transposed(products.row);
  struct {
    float row, column;
  } steps[KEPT];  // a lane's own scales
  for (int left = iterations - 1; left > 0;) {
    const int count = left < KEPT ? left : KEPT;
    Matrix matrix{first.row, transposed(first.row)};
    iterate(matrix, place, left - count, eps);
    Scales scales(place);
    const Line ones = scales.rows;
    for (int k = 0; k < count; ++k) {
      scales.iterate(matrix, place, eps);
      steps[k] = {scales.rows.of[0], scales.columns.of[0]};
    }
    if (left == iterations - 1) {
      for (int j = 0; j < LANES; ++j) {
        products.row.of[j] *= matrix.row.of[j] * scales.rows.of[0] * scales.columns.of[j];
        products.column.of[j] *= matrix.column.of[j] * scales.columns.of[0] * scales.rows.of[j];
      }
    }
    Line rows = scales.rows;
#pragma unroll 1
    for (int k = count - 1; k >= 0; --k) {
      const Line columns = gather(steps[k].column), before = k > 0 ? gather(steps[k - 1].row) : ones;
      undo(products.row, products.column, matrix.row, matrix.column, rows, columns);
      undo(products.column, products.row, matrix.column, matrix.row, columns, before);
      rows = before;
    }
    left -= count;
  }
  Line row = products.row;
  for (int j = 0; j < LANES; ++j) row.of[j] *= iterations == 1 ? first.row.of[j] : 1.0f;
  const float along = sum_of(row);
  if (deepseek) {  // eps makes every entry large enough to divide by
    const float lost = Divisor(place.is_real(0) ? first.divisor : 1.0f).divide(along);
    for (int j = 0; j < LANES; ++j) {
      const float entry = first.columns.of[j] + eps;
      row.of[j] = Divisor(entry > 0.0f ? entry : 1.0f).divide(row.of[j]) - lost;
    }
  } else {
    for (int j = 0; j < LANES; ++j) row.of[j] = MHC_FMA(-along, first.row.of[j], row.of[j]);
  }
  Line weighted = row;
  for (int j = 0; j < LANES; ++j) weighted.of[j] *= deepseek ? first.columns.of[j] : 1.0f;
  const Line down = gather(sum_of(transposed(weighted)));
  for (int j = 0; j < LANES; ++j) {
    row.of[j] = deepseek ? first.columns.of[j] * (row.of[j] - down.of[j]) : row.of[j] - first.columns.of[j] * down.of[j];
  }
  store_row(grad_logits, place, row);
}

EXPORT(sinkhorn_forward)
EXPORT(sinkhorn_backward)
