// Arithmetic of floating-point numbers: f32, f64, f16, bf16, and pairs of the narrow ones.
#include "operators.h"

namespace float_ops {

enum FloatParameter { kMode, kFlush, kSaturate, kRelu, kKeepNan };

// min and max: of a number and a NaN the number, unless .NaN asks for NaN.
template <class T> T least(T a, T b) { return a != a ? b : b != b ? a : a < b ? a : b < a ? b : std::signbit(a) ? a : b; }
template <class T> T most(T a, T b) { return a != a ? b : b != b ? a : a > b ? a : b > a ? b : std::signbit(a) ? b : a; }
template <class T> T nan_least(T a, T b) { return a != a ? a : b != b ? b : least(a, b); }
template <class T> T nan_most(T a, T b) { return a != a ? a : b != b ? b : most(a, b); }

// .xorsign.abs: the magnitudes are compared, and the result is negative where one of the signs is.
template <class T> T signed_like(T size, T a, T b) { return std::signbit(a) != std::signbit(b) ? -size : size; }

double saturated(double value) { return value != value ? 0.0 : value < 0 ? 0.0 : value > 1 ? 1.0 : value; }

// The same in f32 with a way of rounding, .ftz and .sat; F works on exact numbers, and its last bit tells what is inexact.
template <int Count, class F>
Handler* general(F) {
  static_assert(std::is_empty_v<F>);
  return [](Wave& w, const Record& i) {
    const u64* from[3] = {};
    for (u32 k = 0; k < 3; k++) from[k] = w.lanes(origin(w, i, k < Count ? k : 0));
    const u32 mode = static_cast<u32>(i.parameter[kMode]);
    each(w, i, [&](u32 lane) -> u64 {
      float x[3];
      for (u32 k = 0; k < 3; k++) {
        x[k] = f32(static_cast<u32>(from[k][lane]));
        if (i.parameter[kFlush]) x[k] = flushed(x[k]);
      }
      double result = rounded(F{}(x[0], x[1], x[2]), 23, -126, kMostF32, mode);
      if (i.parameter[kFlush]) result = flushed(static_cast<float>(result));
      if (i.parameter[kSaturate]) result = saturated(result);
      return canonical(static_cast<float>(result));
    });
  };
}

// Taken as correctly rounded; the hardware's are off by up to two units in the last place.
double approximate_sine(double x) { return std::sin(x); }

template <int Count, class F>
void single(const std::string& name, F f) {
  handlers()[name + ".f32.general"] = general<Count>(f);
}

double product_sum(double a, double b, double c) {
  const double product = a * b;  // exact
  if (product == 0 || c == 0) return product + c;
  return odd_sum(product, c);
}

// The upper 32 bits of a number; a subnormal number is zero.
double upper_half(double a) {
  const double kept = a == a ? f64(bits64(a) >> 32 << 32) : a;
  return std::fabs(kept) < 0x1p-1022 ? std::copysign(0.0, kept) : kept;
}

void singles() {
  auto& all = handlers();
  all["add.f32"] = binary<float>([](float a, float b) { return a + b; });
  all["sub.f32"] = binary<float>([](float a, float b) { return a - b; });
  all["mul.f32"] = binary<float>([](float a, float b) { return a * b; });
  all["fma.f32"] = ternary<float>([](float a, float b, float c) { return fmaf(a, b, c); });
  all["div.f32"] = binary<float>([](float a, float b) { return a / b; });
  single<2>("add", [](double a, double b, double) { return a == 0 || b == 0 ? a + b : odd_sum(a, b); });
  single<2>("sub", [](double a, double b, double) { return a == 0 || b == 0 ? a - b : odd_sum(a, -b); });
  single<2>("mul", [](double a, double b, double) { return a * b; });
  single<3>("fma", [](double a, double b, double c) { return product_sum(a, b, c); });
  single<2>("div", [](double a, double b, double) { return odd_quotient(a, b); });
  single<1>("rcp", [](double a, double, double) { return odd_quotient(1.0, a); });
  single<1>("sqrt", [](double a, double, double) { return odd_root(a); });
  single<1>("rsqrt", [](double a, double, double) { return 1.0 / std::sqrt(a); });
  single<1>("ex2", [](double a, double, double) { return std::exp2(a); });
  single<1>("lg2", [](double a, double, double) { return std::log2(a); });
  single<1>("sin", [](double a, double, double) { return approximate_sine(a); });
  single<1>("cos", [](double a, double, double) { return std::cos(a); });
  single<1>("tanh", [](double a, double, double) { return std::tanh(a); });
  single<1>("neg", [](double a, double, double) { return -a; });
  single<1>("abs", [](double a, double, double) { return std::fabs(a); });
  single<2>("min", [](double a, double b, double) { return least(a, b); });
  single<2>("max", [](double a, double b, double) { return most(a, b); });
  single<2>("min.nan", [](double a, double b, double) { return nan_least(a, b); });
  single<2>("max.nan", [](double a, double b, double) { return nan_most(a, b); });
  all["min.xorsign.f32"] = binary<float>([](float a, float b) { return signed_like(least(fabsf(a), fabsf(b)), a, b); });
  all["max.xorsign.f32"] = binary<float>([](float a, float b) { return signed_like(most(fabsf(a), fabsf(b)), a, b); });
  all["neg.f32"] = unary<u32>([](u32 a) { return a ^ 0x80000000u; });
  all["abs.f32"] = unary<u32>([](u32 a) { return a & 0x7fffffffu; });
  all["copysign.f32"] = binary<u32>([](u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); });
  all["copysign.f64"] = binary<u64>([](u64 a, u64 b) { return (a & 1ull << 63) | (b & ~(1ull << 63)); });
}

void doubles() {
  auto& all = handlers();
  all["add.f64"] = binary<double>([](double a, double b) { return a + b; });
  all["sub.f64"] = binary<double>([](double a, double b) { return a - b; });
  all["mul.f64"] = binary<double>([](double a, double b) { return a * b; });
  all["fma.f64"] = ternary<double>([](double a, double b, double c) { return fma(a, b, c); });
  all["div.f64"] = binary<double>([](double a, double b) { return a / b; });
  all["rcp.approx.f64"] = unary<double>([](double a) { return upper_half(1.0 / upper_half(a)); });
  all["rsqrt.approx.f64"] = unary<double>([](double a) { return upper_half(1.0 / std::sqrt(upper_half(a))); });
  all["rcp.f64"] = unary<double>([](double a) { return 1.0 / a; });
  all["sqrt.f64"] = unary<double>([](double a) { return std::sqrt(a); });
  all["neg.f64"] = unary<u64>([](u64 a) { return a ^ 1ull << 63; });
  all["abs.f64"] = unary<u64>([](u64 a) { return a & ~(1ull << 63); });
}

// f16 and bf16. Sums and products in f32 are rounded as the exact ones: f32 has more than twice their bits.
template <class T>
void narrow(const std::string& type, u64 sign) {
  auto& all = handlers();
  all["add." + type] = binary<T>([](float a, float b) { return a + b; });
  all["sub." + type] = binary<T>([](float a, float b) { return a - b; });
  all["mul." + type] = binary<T>([](float a, float b) { return a * b; });
  all["fma." + type] = [](Wave& w, const Record& i) {
    const u64 *a = w.lanes(origin(w, i, 0)), *b = w.lanes(origin(w, i, 1)), *c = w.lanes(origin(w, i, 2));
    each(w, i, [&](u32 l) {
      double result = product_sum(Format<T>::get(a[l]), Format<T>::get(b[l]), Format<T>::get(c[l]));
      if (i.parameter[kRelu] && result < 0) result = 0;
      return Format<T>::put(result, kNearest);
    });
  };
  all["ex2." + type] = unary<T>([](float a) { return exp2f(a); });
  all["tanh." + type] = unary<T>([](float a) { return tanhf(a); });
  if (sign == 0x8000) all["neg." + type] = raw([](u64 a, u64, u64, u64) -> u64 { return (a ^ 0x8000) & 0xffff; });
  if (sign == 0x8000) all["abs." + type] = raw([](u64 a, u64, u64, u64) -> u64 { return a & 0x7fff; });
}

template <class T>
void compared(const std::string& type) {
  using N = Number<T>;
  auto& all = handlers();
  all["min." + type] = binary<T>([](N a, N b) { return least(a, b); });
  all["max." + type] = binary<T>([](N a, N b) { return most(a, b); });
  all["min.nan." + type] = binary<T>([](N a, N b) { return nan_least(a, b); });
  all["max.nan." + type] = binary<T>([](N a, N b) { return nan_most(a, b); });
  all["setp.eq." + type] = comparison<T>([](N a, N b) { return a == b; });
  all["setp.ne." + type] = comparison<T>([](N a, N b) { return a < b || a > b; });
  all["setp.lt." + type] = comparison<T>([](N a, N b) { return a < b; });
  all["setp.le." + type] = comparison<T>([](N a, N b) { return a <= b; });
  all["setp.gt." + type] = comparison<T>([](N a, N b) { return a > b; });
  all["setp.ge." + type] = comparison<T>([](N a, N b) { return a >= b; });
  all["setp.equ." + type] = comparison<T>([](N a, N b) { return !(a < b || a > b); });
  all["setp.neu." + type] = comparison<T>([](N a, N b) { return a != b; });
  all["setp.ltu." + type] = comparison<T>([](N a, N b) { return !(a >= b); });
  all["setp.leu." + type] = comparison<T>([](N a, N b) { return !(a > b); });
  all["setp.gtu." + type] = comparison<T>([](N a, N b) { return !(a <= b); });
  all["setp.geu." + type] = comparison<T>([](N a, N b) { return !(a < b); });
  all["setp.num." + type] = comparison<T>([](N a, N b) { return a == a && b == b; });
  all["setp.nan." + type] = comparison<T>([](N a, N b) { return a != a || b != b; });
}

const bool is_registered = [] {
  singles(), doubles();
  narrow<F16>("f16", 0x8000), narrow<Bf16>("bf16", 0x8000);
  compared<float>("f32"), compared<double>("f64"), compared<F16>("f16"), compared<Bf16>("bf16");
  return true;
}();

// A pair: the operation of one half, on both. Parameter 5 is the address of its handler.
HANDLER(pair) {
  const u32 bits = static_cast<u32>(i.parameter[4]);
  auto* one = reinterpret_cast<Handler*>(i.parameter[5]);
  const u64 whole = (1ull << bits) - 1;
  u64 saved[4][kLanes], low[kLanes], result[kLanes];
  for (u32 k = 0; k < i.from; k++) memcpy(saved[k], w.lanes(origin(w, i, k)), sizeof saved[k]);
  const u32 to = target(w, i);
  u64 old[kLanes];
  memcpy(old, w.lanes(to), sizeof old);
  // Scratch registers behind all others hold the halves: the record of a half names them.
  Record half = i;
  half.first = static_cast<u32>(i.parameter[3]), half.to = 1;
  for (u32 part = 0; part < 2; part++) {
    for (u32 k = 0; k < i.from; k++) {
      for (u32 lane = 0; lane < kLanes; lane++) w.lanes(origin(w, half, k))[lane] = saved[k][lane] >> bits * part & whole;
    }
    for (u32 k = 3; k < kParameters; k++) half.parameter[k] = 0;
    one(w, half);
    memcpy(part ? result : low, w.lanes(target(w, half)), sizeof low);
  }
  each(w, i, [&](u32 lane) { return (low[lane] & whole) | result[lane] << bits; });
}

}  // namespace float_ops
