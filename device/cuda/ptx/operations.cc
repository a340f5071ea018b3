#include "zeroshard/device/cuda/ptx/operations.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "zeroshard/device/cuda/ptx/values.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// The nearest value that To has; a NaN is 0.
template <class To, class From>
To Saturated(From x) {
  if (std::isnan(x)) return 0;
  const From bound = std::ldexp(From{1}, std::numeric_limits<To>::digits);
  if (x >= bound) return std::numeric_limits<To>::max();
  if (x < (std::is_signed_v<To> ? -bound : From{0})) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

template <class From>
void AddRoundings(Operations& ops, const std::string& type) {
  const auto add = [&](const std::string& name, auto round) {
    using F = decltype(round);
    ops["cvt." + name + "." + type + "." + type] = Of<From>([](From x) { return F()(x); });
    ForEachInteger([&]<class To>(To, const std::string& to) {
      ops["cvt." + name + "." + to + "." + type] = Of<From>([](From x) { return Saturated<To>(F()(x)); });
    });
  };
  add("rni", [](From x) { return std::nearbyint(x); });
  add("rzi", [](From x) { return std::trunc(x); });
  add("rmi", [](From x) { return std::floor(x); });
  add("rpi", [](From x) { return std::ceil(x); });
}

template <class Body>
void ForEachConverted(const Body& body) {
  body(uint8_t{}, "u8");
  body(int8_t{}, "s8");
  ForEachInteger(body);
}

const Operations& All() {
  static const Operations& all = *[] {
    auto* ops = new Operations;
    AddIntegers(*ops);
    AddFloats(*ops);
    AddConversions(*ops);
    return ops;
  }();
  return all;
}

}  // namespace

void AddConversions(Operations& ops) {
  ForEachConverted([&]<class From>(From, const std::string& from) {
    ForEachConverted([&]<class To>(To, const std::string& to) {
      ops["cvt." + to + "." + from] = Of<From>([](From x) { return static_cast<To>(x); });
    });
    ForEachFloat([&]<class To>(To, const std::string& to) {
      ops["cvt.rn." + to + "." + from] = Of<From>([](From x) { return static_cast<To>(x); });
    });
  });
  ForEachFloat([&]<class From>(From, const std::string& from) { AddRoundings<From>(ops, from); });
  ops["cvt.f64.f32"] = Of<float>([](float x) { return static_cast<double>(x); });
  ops["cvt.rn.f32.f64"] = Of<double>([](double x) { return static_cast<float>(x); });
}

Compute FindCompute(std::string_view name) {
  const auto found = All().find(name);
  return found == All().end() ? nullptr : found->second;
}

Combine FindAtomic(std::string_view operation) {
  if (operation == "add.u64") return [](uint64_t there, uint64_t operand) { return there + operand; };
  if (operation == "max.u32") return [](uint64_t there, uint64_t operand) { return std::max(there, operand & 0xffffffff); };
  return nullptr;
}

Type FindType(std::string_view type) {
  if (type.size() < 2 || std::string_view("busf").find(type[0]) == std::string_view::npos) return {};
  const std::string_view bits = type.substr(1);
  const uint8_t bytes = bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : 0;
  return {bytes, type[0] == 's'};
}

}  // namespace zeroshard::device::cuda::ptx
