// Calls plain C functions: behind this stands `MHC_FUNCTIONS(first, second)` with the kernels of the program.
#pragma once
#include <utility>

#include "operand.h"

template <typename T>
struct mhc_argument {
  static T of(const mhc_operand &given) { return (T)given.number; }
};
template <typename T>
struct mhc_argument<T *> {
  static T *of(const mhc_operand &given) { return (T *)given.data; }
};

template <typename Result, typename... Types, size_t... Places>
int mhc_apply(Result (*function)(Types...), const mhc_operand *given, std::index_sequence<Places...>) {
  return (int)function(mhc_argument<Types>::of(given[Places])...);
}
template <typename Result, typename... Types>
int mhc_choose(int64_t kernel, int64_t place, const mhc_operand *given, int64_t count, Result (*function)(Types...)) {
  if (kernel != place) return -1;
  return count == sizeof...(Types) ? mhc_apply(function, given, std::index_sequence_for<Types...>()) : -2;
}
template <typename... Functions>
int mhc_one_of(int64_t kernel, const mhc_operand *given, int64_t count, Functions... functions) {
  int64_t place = 0;
  int status = -1;
  (void)((status = mhc_choose(kernel, place++, given, count, functions), kernel == place - 1) || ...);
  return status;
}

#define MHC_FUNCTIONS(...) \
  int mhc_call(int64_t kernel, mhc_operand *operands, int64_t count) { \
    return mhc_one_of(kernel, operands, count, __VA_ARGS__); \
  }
