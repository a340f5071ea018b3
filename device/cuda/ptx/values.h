// Registers as values of a type, and functions of values as operations.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "zeroshard/device/cuda/ptx/program.h"

namespace zeroshard::device::cuda::ptx {

template <class T>
T Get(const uint64_t* registers, uint32_t at) {
  if constexpr (std::is_same_v<T, bool>) return registers[at] & 1;  // a predicate, which texts write as -1 too
  T value;
  std::memcpy(&value, registers + at, sizeof value);
  return value;
}

template <class T>
void Put(uint64_t* registers, uint32_t at, T value) {
  if constexpr (std::is_integral_v<T>) {
    registers[at] = static_cast<uint64_t>(static_cast<int64_t>(value));  // a signed one with its sign
  } else {
    registers[at] = 0;
    std::memcpy(registers + at, &value, sizeof value);
  }
}

namespace internal {

template <class F, class... Args, size_t... kIndices>
void Run(uint64_t* registers, const Instruction& i, std::index_sequence<kIndices...>) {
  Put(registers, i.to[0], F()(Get<Args>(registers, i.from[kIndices])...));
}

}  // namespace internal

// to[0] = F()(from[0] as the first of Args, ...).
template <class... Args, class F>
Compute Of(F) {
  return [](uint64_t* registers, const Instruction& i) {
    internal::Run<F, Args...>(registers, i, std::index_sequence_for<Args...>());
  };
}

using Operations = std::map<std::string, Compute, std::less<>>;

// body(T(), "u16") and so on.
template <class Body>
void ForEachInteger(const Body& body) {
  body(uint16_t{}, "u16");
  body(int16_t{}, "s16");
  body(uint32_t{}, "u32");
  body(int32_t{}, "s32");
  body(uint64_t{}, "u64");
  body(int64_t{}, "s64");
}
template <class Body>
void ForEachFloat(const Body& body) {
  body(float{}, "f32");
  body(double{}, "f64");
}

// Parts of the table.
void AddIntegers(Operations& operations);
void AddFloats(Operations& operations);
void AddConversions(Operations& operations);

}  // namespace zeroshard::device::cuda::ptx
