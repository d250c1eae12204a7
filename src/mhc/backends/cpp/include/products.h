// 16 tokens of x in bf16 times rows of fp32 numbers, the weights, by tensor cores, in two forms of the weights. A bf16
// number is exact in both kinds of products. The steps have 16 columns each, and the tiles eight rows.
#pragma once
#include "hopper.h"
#include "numbers.h"

// The sums of 16 tokens. What the first part of the weights gives is apart from what the others add.
template <int TILES>
struct Sums {
  float large[TILES][4] = {}, small[TILES][4] = {};
};

// Where a lane's weights are in each half of a step: two neighbours from `column` on, of row `lane / 4` of a tile.
__device__ __forceinline__ int column_of(int step, int half, int lane) { return 16 * step + 8 * half + 2 * (lane % 4); }

// Each weight is three bf16 parts, the largest first. Each part is the next eight bits, so nothing is lost.
template <int STEPS, int TILES>
struct Parts {
  static constexpr int PARTS = 3;
  unsigned of[STEPS][TILES][PARTS][2];

  // `weights_at(tile, column)` returns two neighbours.
  template <typename WeightsAt>
  __device__ __forceinline__ void take(const WeightsAt& weights_at, int lane) {
    for (int step = 0; step < STEPS; ++step) {
      for (int half = 0; half < 2; ++half) {
        for (int tile = 0; tile < TILES; ++tile) {
          const float2 two = weights_at(tile, column_of(step, half, lane));
          float low = two.x, high = two.y;
          for (int part = 0; part < PARTS; ++part) {
            of[step][tile][part][half] = __byte_perm(bits_of(low), bits_of(high), 0x7632);  // the upper half of each
            low -= float_of(bits_of(low) & 0xffff0000);
            high -= float_of(bits_of(high) & 0xffff0000);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_by(const unsigned (&x)[4], int step, Sums<TILES>& sums) const {
    for (int part = PARTS - 1; part >= 0; --part) {
      for (int tile = 0; tile < TILES; ++tile) {
        multiply(part == 0 ? sums.large[tile] : sums.small[tile], x, of[step][tile][part]);
      }
    }
  }
};

// Each weight is a number of 32 bits, which is two thirds of the registers, or less: the steps from KEPT on are put
// away in memory. A weight is the sum of two numbers in TF32, with 11 bits each. To make it so is all the rounding there
// is; the two are taken apart again whenever they are multiplied.
template <int STEPS, int TILES, int KEPT>
struct Whole {
  float of[STEPS][TILES][4];
  const float4* away;
  int apart;

  template <typename WeightsAt>
  __device__ __forceinline__ void take(const WeightsAt& weights_at, int lane) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
          const float2 two = weights_at(tile, column_of(step, half, lane));
          of[step][tile][2 * half] = rounded(two.x);
          of[step][tile][2 * half + 1] = rounded(two.y);
        }
      }
    }
  }

  // Put the last steps to `to`, which is this thread's, and to every `stride`-th place behind it.
  template <int STRIDE>
  __device__ __forceinline__ void put_away(float4* to) {
#pragma unroll
    for (int step = KEPT; step < STEPS; ++step) {
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const float(&four)[4] = of[step][tile];
        to[((step - KEPT) * TILES + tile) * STRIDE] = {four[0], four[1], four[2], four[3]};
      }
    }
    away = to;
    apart = STRIDE;
  }

  __device__ __forceinline__ void multiply_by(const unsigned (&x)[4], int step, Sums<TILES>& sums) const {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      float own[4];
      if (step < KEPT) {
#pragma unroll
        for (int k = 0; k < 4; ++k) own[k] = of[step][tile][k];
      } else {
        const float4 four = away[((step - KEPT) * TILES + tile) * apart];
        own[0] = four.x, own[1] = four.y, own[2] = four.z, own[3] = four.w;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned low = x[2 * half], high = x[2 * half + 1];
        const unsigned wide[4] = {low << 16, high << 16, low & 0xffff0000, high & 0xffff0000};
        const float first[2] = {upper_now(own[2 * half]), upper_now(own[2 * half + 1])};
        const float second[2] = {own[2 * half] - first[0], own[2 * half + 1] - first[1]};
        multiply_tf32(sums.small[tile], wide, second);
        multiply_tf32(sums.large[tile], wide, first);
      }
    }
  }

 private:
  __device__ __forceinline__ static float upper(float value) { return float_of(bits_of(value) & 0xffffe000); }

  // The same, when it is asked for: a compiler that does it before the loop over the tokens takes twice the registers.
  __device__ __forceinline__ static float upper_now(float value) {
    float first;
    asm volatile("and.b32 %0, %1, 0xffffe000;" : "=f"(first) : "f"(value));
    return first;
  }

  __device__ __forceinline__ static float rounded(float value) {
    const float first = upper(value), second = value - first;
    return first + upper(float_of(bits_of(second) + 0x1000));
  }
};
