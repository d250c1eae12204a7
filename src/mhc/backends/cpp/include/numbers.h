// Numbers: bf16 and fp16 as memory holds them, four elements at a time, and the functions of a kernel's equations.
//
// Everything is computed in fp32. The exponential is written out, as every device has another one.
#pragma once
#include "device.h"

__device__ __forceinline__ unsigned bits_of(float value) { return MHC_BITS_OF(value); }

__device__ __forceinline__ float float_of(unsigned bits) { return MHC_FLOAT_OF(bits); }

struct bf16 {
  unsigned short bits;
};

struct fp16 {
  unsigned short bits;
};

__device__ __forceinline__ float widen(float value) { return value; }

__device__ __forceinline__ float widen(bf16 value) { return float_of(unsigned(value.bits) << 16); }

__device__ __forceinline__ float widen(fp16 value) {
#if defined(__CUDACC__) && !defined(__HIP__)
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
#else
  const unsigned sign = unsigned(value.bits & 0x8000) << 16, rest = value.bits & 0x7fff;
  if (rest < 0x0400) return float_of(bits_of(float(rest) * 0x1p-24f) | sign);  // subnormal, or zero
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000u | ((rest & 0x3ff) << 13));
  return float_of(sign | ((rest << 13) + (112u << 23)));
#endif
}

// Round to nearest, and to even between two.
__device__ __forceinline__ void narrow(float value, float& to) { to = value; }

__device__ __forceinline__ void narrow(float value, bf16& to) {
  const unsigned bits = bits_of(value);
  to.bits = value != value ? 0x7fc0 : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ __forceinline__ void narrow(float value, fp16& to) {
#if defined(__CUDACC__) && !defined(__HIP__)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
#else
  const unsigned sign = bits_of(value) >> 16 & 0x8000, rest = bits_of(value) & 0x7fffffff;
  unsigned half;
  if (rest > 0x7f800000) half = 0x7e00;         // NaN
  else if (rest >= 0x477ff000) half = 0x7c00;   // from 65520 on
  else if (rest < 0x38800000) half = bits_of(float_of(rest) + 0.5f) - 0x3f000000;  // below 2^-14: 0.5 has its spacing
  else half = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
  to.bits = (unsigned short)(sign | half);
#endif
}

struct e4m3 {  // fp8, without infinity: 448 is the largest
  unsigned char bits;
};

// The number is not above 448, or NaN: its bits are above those of all numbers.
__device__ __forceinline__ void narrow(float value, e4m3& to) {
  const unsigned sign = bits_of(value) >> 24 & 0x80, rest = bits_of(value) & 0x7fffffff;
  unsigned eight;
  if (rest < 0x3c800000) eight = bits_of(float_of(rest) + 16384.0f) - 0x46800000;  // below 2^-6: 16384 has its spacing
  else eight = (rest - (120u << 23) + 0x7ffff + (rest >> 20 & 1)) >> 20;
  to.bits = (unsigned char)(sign | (eight < 0x7f ? eight : 0x7f));
}

struct Four {
  float of[4];
};

template <class T>
struct alignas(4 * sizeof(T)) Pack {
  T of[4];
};

// Return the elements at, at + 1, ... of a row that ends before `end`; zero beyond. With `whole`, the row's address and
// its length are multiples of four elements: that is one load. The elements of a thread are the same either way.
template <class T>
__device__ __forceinline__ Four load(const T* row, int at, int end, bool whole) {
  Four four;
  if (whole) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + at);
    for (int k = 0; k < 4; ++k) four.of[k] = widen(pack.of[k]);
  } else {
    for (int k = 0; k < 4; ++k) four.of[k] = at + k < end ? widen(row[at + k]) : 0.0f;
  }
  return four;
}

template <class T>
__device__ __forceinline__ void store(T* row, int at, int end, bool whole, const Four& four) {
  if (whole) {
    Pack<T> pack;
    for (int k = 0; k < 4; ++k) narrow(four.of[k], pack.of[k]);
    *reinterpret_cast<Pack<T>*>(row + at) = pack;
  } else {
    for (int k = 0; k < 4; ++k) {
      if (at + k < end) narrow(four.of[k], row[at + k]);
    }
  }
}

// e^x within two roundings, 0 where it is too small, infinity where it is too large, NaN for NaN.
__device__ __forceinline__ float exponential(float x) {
  x = x < -150.0f ? -150.0f : x > 150.0f ? 150.0f : x;
  const float power = x == x ? MHC_RINT(x * 1.44269504f) : 0.0f;  // x = power · ln 2 + rest; the rest of NaN is NaN
  float rest = MHC_FMA(power, -0x1.62e430p-1f, x);
  rest = MHC_FMA(power, 0x1.05c610p-29f, rest);
  float sum = 1.0f / 5040.0f;  // Taylor's series
  sum = MHC_FMA(sum, rest, 1.0f / 720.0f);
  sum = MHC_FMA(sum, rest, 1.0f / 120.0f);
  sum = MHC_FMA(sum, rest, 1.0f / 24.0f);
  sum = MHC_FMA(sum, rest, 1.0f / 6.0f);
  sum = MHC_FMA(sum, rest, 0.5f);
  sum = MHC_FMA(sum, rest, 1.0f);
  sum = MHC_FMA(sum, rest, 1.0f);
  const int half = int(power) / 2;  // 2^power may be no normal number, and its two factors are
  return sum * float_of(unsigned(half + 127) << 23) * float_of(unsigned(int(power) - half + 127) << 23);
}

__device__ __forceinline__ float larger(float a, float b) { return a < b ? b : a; }

// 1 / x, rounded once but for some whose rounding is all but a tie, for x from 1e-37 to 1e37.
__device__ __forceinline__ float reciprocal(float x) {
#if defined(__CUDACC__) && !defined(__HIP__)
  float rough;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(rough) : "f"(x));
  return fmaf(fmaf(-x, rough, 1.0f), rough, rough);
#else
  return 1.0f / x;
#endif
}

// What several numbers are divided by. A quotient is rounded once, but for some whose rounding is all but a tie.
//
// NVIDIA's division has a branch for rare cases, so divisions wait for each other. Here the reciprocal is made once, and
// each quotient is corrected by what is left of its number. The factor keeps reciprocals of small divisors finite.
struct Divisor {
#if defined(__CUDACC__) && !defined(__HIP__)
  float scale, divisor, inverse;

  Divisor() = default;
  __device__ __forceinline__ explicit Divisor(float value)
      : scale(value < 0x1p-100f ? 0x1p64f : 1.0f), divisor(value * scale), inverse(reciprocal(divisor)) {}

  __device__ __forceinline__ float divide(float number) const {
    number *= scale;
    const float quotient = number * inverse;
    return fmaf(fmaf(-divisor, quotient, number), inverse, quotient);
  }
#else
  float divisor;

  Divisor() = default;
  __device__ __forceinline__ explicit Divisor(float value) : divisor(value) {}

  __device__ __forceinline__ float divide(float number) const { return number / divisor; }
#endif
};

// 1 / (1 + e^-x), without a branch; 0 where it is below 1e-38.
__device__ __forceinline__ float sigmoid(float x) {
  return Divisor(1.0f + exponential(x < -88.0f ? 88.0f : -x)).divide(1.0f);
}

// 1 / √x within two roundings.
__device__ __forceinline__ float inverse_root(float x) {
#if defined(__CUDACC__) && !defined(__HIP__)
  float rough;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(rough) : "f"(x));
  const float better = fmaf(0.5f * rough, fmaf(-x * rough, rough, 1.0f), rough);
  return rough > 0.0f && rough < 3.0e38f ? better : rough;  // of 0 and of infinity the rough one is exact
#else
  return 1.0f / MHC_SQRT(x);
#endif
}
