#include <bit>
#include <cmath>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/ptx/values.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// Of fp32, a GPU knows one NaN.
float Canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fffffffu) : x; }
double Canonical(double x) { return x; }

// The other where one is a NaN; -0 is less than 0.
template <class T>
T Least(T a, T b) {
  if (std::isnan(a)) return Canonical(b);
  if (std::isnan(b)) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T Greatest(T a, T b) {
  return -Least(-a, -b);
}

// A NaN where either is one.
template <class T>
T LeastOrNan(T a, T b) {
  return std::isunordered(a, b) ? Canonical(a + b) : Least(a, b);
}

template <class T>
void AddArithmetic(Operations& ops, const std::string& type) {
  ops["add.rn." + type] = Of<T, T>([](T a, T b) { return Canonical(a + b); });
  ops["sub.rn." + type] = Of<T, T>([](T a, T b) { return Canonical(a - b); });
  ops["mul.rn." + type] = Of<T, T>([](T a, T b) { return Canonical(a * b); });
  ops["div.rn." + type] = Of<T, T>([](T a, T b) { return Canonical(a / b); });
  ops["fma.rn." + type] = Of<T, T, T>([](T a, T b, T c) { return Canonical(std::fma(a, b, c)); });
  ops["sqrt.rn." + type] = Of<T>([](T a) { return Canonical(std::sqrt(a)); });
  ops["rcp.rn." + type] = Of<T>([](T a) { return Canonical(1 / a); });
  ops["neg." + type] = Of<T>([](T a) { return -a; });
  ops["abs." + type] = Of<T>([](T a) { return std::abs(a); });
  ops["min." + type] = Of<T, T>([](T a, T b) { return Least(a, b); });
  ops["max." + type] = Of<T, T>([](T a, T b) { return Greatest(a, b); });
  ops["min.NaN." + type] = Of<T, T>([](T a, T b) { return LeastOrNan(a, b); });
  ops["max.NaN." + type] = Of<T, T>([](T a, T b) { return Canonical(-LeastOrNan(-a, -b)); });
  ops["mov." + type] = Of<T>([](T a) { return a; });
  ops["selp." + type] = Of<T, T, bool>([](T a, T b, bool first) { return first ? a : b; });
}

// Those with a "u" are true of a NaN as well.
template <class T>
void AddComparisons(Operations& ops, const std::string& type) {
  const auto add = [&](const std::string& name, auto compare) {
    using F = decltype(compare);
    ops["setp." + name + "." + type] = Of<T, T>([](T a, T b) { return !std::isunordered(a, b) && F()(a, b); });
    ops["setp." + name + "u." + type] = Of<T, T>([](T a, T b) { return std::isunordered(a, b) || F()(a, b); });
  };
  add("eq", [](T a, T b) { return a == b; });
  add("ne", [](T a, T b) { return a != b; });
  add("lt", [](T a, T b) { return a < b; });
  add("le", [](T a, T b) { return a <= b; });
  add("gt", [](T a, T b) { return a > b; });
  add("ge", [](T a, T b) { return a >= b; });
  ops["setp.num." + type] = Of<T, T>([](T a, T b) { return !std::isunordered(a, b); });
  ops["setp.nan." + type] = Of<T, T>([](T a, T b) { return std::isunordered(a, b); });
}

// Two-byte floats, of which a GPU knows one NaN as well.
template <class T>
T Narrowed(float x) {
  return std::isnan(x) ? T{0x7fff} : Narrow<T>(x);
}

template <class T>
void AddHalves(Operations& ops, const std::string& type) {
  ops["cvt.rn." + type + ".f32"] = Of<float>([](float x) { return Narrowed<T>(x).bits; });
  ops["cvt.f32." + type] = Of<uint16_t>([](uint16_t bits) { return Canonical(ToFloat(T{bits})); });
  ops["cvt.rn." + type + "x2.f32"] =
      Of<float, float>([](float high, float low) { return uint32_t{Narrowed<T>(high).bits} << 16 | Narrowed<T>(low).bits; });
}

// A start for Newton's steps: of the reciprocal, the upper word.
double RoughReciprocal(double x) {
  if (std::fpclassify(x) == FP_SUBNORMAL) x = std::copysign(0.0, x);
  const double reciprocal = 1 / x;
  if (std::fpclassify(reciprocal) == FP_SUBNORMAL) return std::copysign(0.0, reciprocal);
  return std::bit_cast<double>(std::bit_cast<uint64_t>(reciprocal) & ~uint64_t{0xffffffff});
}

}  // namespace

void AddFloats(Operations& ops) {
  ForEachFloat([&]<class T>(T, const std::string& type) {
    AddArithmetic<T>(ops, type);
    AddComparisons<T>(ops, type);
  });
  AddHalves<Bfloat16>(ops, "bf16");
  AddHalves<Float16>(ops, "f16");
  ops["rcp.approx.ftz.f64"] = Of<double>([](double a) { return RoughReciprocal(a); });
}

}  // namespace zeroshard::device::cuda::ptx
