// sinkhorn and its gradient. A lane has one row of a matrix in registers: sums of rows are its own, sums of columns go
// through shuffles. A matrix has LANES lanes of a warp; those beyond its rows repeat the last row, and add zero.
//
// The compiler is given STREAMS.
#include "sums.h"

constexpr int LANES = STREAMS <= 1 ? 1 : STREAMS <= 2 ? 2 : STREAMS <= 4 ? 4 : STREAMS <= 8 ? 8 : 16;
constexpr int MATRICES = THREADS / LANES;  // of a block
constexpr int KEPT = 20;                   // iterations whose quotients and divisors the backward keeps at a time

struct Row {
  float of[STREAMS];
};

// Where a lane's row lies. A matrix beyond the last token repeats that one, and is not stored.
struct Place {
  long long first;
  bool is_row, is_stored;

  __device__ __forceinline__ explicit Place(long long tokens) {
    const int lane = thread_index() % LANES;
    const long long token = block_index() * MATRICES + thread_index() / LANES;
    is_row = lane < STREAMS;
    is_stored = is_row && token < tokens;
    first = ((token < tokens ? token : tokens - 1) * STREAMS + (is_row ? lane : STREAMS - 1)) * STREAMS;
  }
};

__device__ __forceinline__ Row load_row(const float* matrix, const Place& place) {
  Row row;
  for (int j = 0; j < STREAMS; ++j) row.of[j] = matrix[place.first + j];
  return row;
}

__device__ __forceinline__ void store_row(float* matrix, const Place& place, const Row& row) {
  if (!place.is_stored) return;
  for (int j = 0; j < STREAMS; ++j) matrix[place.first + j] = row.of[j];
}

__device__ __forceinline__ Row sums_of_columns(const Row& row, const Place& place) {
  Row sums;
  for (int j = 0; j < STREAMS; ++j) sums.of[j] = sum_of_lanes<LANES>(place.is_row ? row.of[j] : 0.0f);
  return sums;
}

__device__ __forceinline__ float sum_of_row(const Row& row) {
  float sum = row.of[0];
  for (int j = 1; j < STREAMS; ++j) sum += row.of[j];
  return sum;
}

__device__ __forceinline__ float sum_of_products(const Row& a, const Row& b) {
  float sum = a.of[0] * b.of[0];
  for (int j = 1; j < STREAMS; ++j) sum += a.of[j] * b.of[j];
  return sum;
}

__device__ __forceinline__ Row products(const Row& a, const Row& b) {
  Row row;
  for (int j = 0; j < STREAMS; ++j) row.of[j] = a.of[j] * b.of[j];
  return row;
}

struct Divisors {
  Divisor of[STREAMS];

  __device__ __forceinline__ explicit Divisors(const Row& sums) {
    for (int j = 0; j < STREAMS; ++j) of[j] = Divisor(sums.of[j]);
  }
};

__device__ __forceinline__ Row quotients(const Row& row, const Divisors& divisors) {
  Row quotient;
  for (int j = 0; j < STREAMS; ++j) quotient.of[j] = divisors.of[j].divide(row.of[j]);
  return quotient;
}

__device__ __forceinline__ Row quotients(const Row& row, const Divisor& divisor) {
  Row quotient;
  for (int j = 0; j < STREAMS; ++j) quotient.of[j] = divisor.divide(row.of[j]);
  return quotient;
}

// The first iteration: the matrix, the softmax over each column, and what the row was divided by.
struct First {
  Row matrix, columns;
  float divisor;
};

// In the form of the paper, each row is multiplied by a power of e that makes its largest entry 1 before it is divided:
// a row whose quotients would all be 0 keeps its proportions.
__device__ __forceinline__ First first_iteration(const Row& logits, const Place& place, float eps, bool deepseek) {
  Row below, powers;
  for (int j = 0; j < STREAMS; ++j) {
    float largest = logits.of[j];
    for (int apart = LANES / 2; apart > 0; apart /= 2) largest = larger(largest, MHC_SHUFFLE_XOR(largest, apart));
    below.of[j] = logits.of[j] - largest;
    powers.of[j] = exponential(below.of[j]);
  }
  const Row sums = sums_of_columns(powers, place);
  First first;
  first.columns = quotients(powers, Divisors(sums));
  if (deepseek) {
    for (int j = 0; j < STREAMS; ++j) first.matrix.of[j] = first.columns.of[j] + eps;
    first.divisor = sum_of_row(first.matrix) + eps;
  } else {
    float largest = below.of[0];
    for (int j = 1; j < STREAMS; ++j) largest = larger(largest, below.of[j]);
    for (int j = 0; j < STREAMS; ++j) powers.of[j] = exponential(below.of[j] - largest);
    first.matrix = quotients(powers, Divisors(sums));
    first.divisor = sum_of_row(first.matrix);
  }
  first.matrix = quotients(first.matrix, Divisor(first.divisor));
  return first;
}

// One iteration: divide by the sums of the columns, then by the sums of the rows. It keeps no second quotients: a step
// back has them sooner by a division than from memory.
struct Step {
  Row by_columns, columns;  // the first quotients, the divisors of the columns
  float row;                // the divisor of the row

  __device__ __forceinline__ Row take(const Row& matrix, const Place& place, float eps) {
    columns = sums_of_columns(matrix, place);
    for (int j = 0; j < STREAMS; ++j) columns.of[j] += eps;
    by_columns = quotients(matrix, Divisors(columns));
    row = sum_of_row(by_columns) + eps;
    return quotients(by_columns, Divisor(row));
  }

  // The gradient of M' = M / s is (g - sum of g M') / s.
  __device__ __forceinline__ void undo(Row& grad, const Place& place) const {
    // No compiler moves work to before a shuffle: what needs no gradient stands first.
    const Divisor of_row(row);
    const Divisors of_columns(columns);
    const float along = sum_of_products(grad, quotients(by_columns, of_row));
    for (int j = 0; j < STREAMS; ++j) grad.of[j] = of_row.divide(grad.of[j] - along);
    const Row down = sums_of_columns(products(grad, by_columns), place);
    for (int j = 0; j < STREAMS; ++j) grad.of[j] -= down.of[j];
    grad = quotients(grad, of_columns);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    sinkhorn_forward(const float* logits, float* matrix, long long tokens, int iterations, float eps, int deepseek) {
  const Place place(tokens);
  wait_for_launch_before();
  let_next_launch_begin();
  Row row = first_iteration(load_row(logits, place), place, eps, deepseek).matrix;
  for (int k = 1; k < iterations; ++k) row = Step().take(row, place, eps);
  store_row(matrix, place, row);
}

// Go back over KEPT iterations at a time. Each time, the iterations before them run again.
extern "C" __global__ void __launch_bounds__(THREADS)
    sinkhorn_backward(const float* logits, const float* grad_matrix, float* grad_logits, long long tokens,
                      int iterations, float eps, int deepseek) {
  const Place place(tokens);
  const First first = first_iteration(load_row(logits, place), place, eps, deepseek);
  Row grad = load_row(grad_matrix, place);
  Step steps[KEPT];
  for (int left = iterations - 1; left > 0;) {
    const int count = left < KEPT ? left : KEPT;
    Row row = first.matrix;
    for (int k = 0; k < left - count; ++k) row = Step().take(row, place, eps);
    for (int k = 0; k < count; ++k) row = steps[k].take(row, place, eps);
#pragma unroll 1
    for (int k = count - 1; k >= 0; --k) steps[k].undo(grad, place);
    left -= count;
  }
  const float along = sum_of_products(grad, first.matrix);
  for (int j = 0; j < STREAMS; ++j) grad.of[j] -= along;
  grad = deepseek ? quotients(grad, Divisor(first.divisor)) : products(grad, first.matrix);
  const Row down = sums_of_columns(deepseek ? products(grad, first.columns) : grad, place);
  for (int j = 0; j < STREAMS; ++j) {
    grad.of[j] = deepseek ? first.columns.of[j] * (grad.of[j] - down.of[j]) : grad.of[j] - first.columns.of[j] * down.of[j];
  }
  store_row(grad_logits, place, grad);
}

EXPORT(sinkhorn_forward)
EXPORT(sinkhorn_backward)
